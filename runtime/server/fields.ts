// Reads the fields of a JSON body with their bounds. Null is the same as absent; unknown fields are ignored.
import { isJsonObject } from "../../proto/json-object.ts";
import { invalid } from "./request-error.ts";

export type Body = Readonly<Record<string, unknown>>;

export interface Bounds {
  readonly min?: number;
  readonly max?: number;
  /** The bounds themselves are not allowed. */
  readonly exclusiveMin?: boolean;
}

export class Fields {
  readonly #body: Body;

  constructor(body: Body) {
    this.#body = body;
  }

  raw(name: string): unknown {
    return this.#body[name] ?? undefined;
  }

  number(name: string, bounds: Bounds): number | undefined {
    const value = this.raw(name);
    if (value === undefined) return undefined;
    if (typeof value !== "number") throw invalid(name, `${name} must be a number`);
    const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY, exclusiveMin = false } = bounds;
    if (value > max || value < min || (exclusiveMin && value === min))
      throw invalid(name, `${name} must be ${rangeOf(min, max, exclusiveMin)}, not ${value}`);
    return value;
  }

  integer(name: string, bounds: Bounds): number | undefined {
    const value = this.raw(name);
    if (value !== undefined && !Number.isInteger(value)) throw invalid(name, `${name} must be a whole number`);
    return this.number(name, bounds);
  }

  boolean(name: string): boolean | undefined {
    const value = this.raw(name);
    if (value !== undefined && typeof value !== "boolean") throw invalid(name, `${name} must be true or false`);
    return value;
  }

  string(name: string): string | undefined {
    const value = this.raw(name);
    if (value !== undefined && typeof value !== "string") throw invalid(name, `${name} must be a string`);
    return value;
  }

  oneOf<Choice extends string>(name: string, choices: readonly Choice[]): Choice | undefined {
    const value = this.string(name);
    const found = choices.find((choice) => choice === value);
    if (value !== undefined && found === undefined) throw invalid(name, `${name} must be one of ${choices.join(", ")}`);
    return found;
  }

  object(name: string): Body | undefined {
    const value = this.raw(name);
    if (value !== undefined && !isJsonObject(value)) throw invalid(name, `${name} must be an object`);
    return value as Body | undefined;
  }

  list(name: string): readonly unknown[] | undefined {
    const value = this.raw(name);
    if (value !== undefined && !Array.isArray(value)) throw invalid(name, `${name} must be a list`);
    return value as readonly unknown[] | undefined;
  }
}

/** Undefined where the text is no JSON object. */
export function objectIn(text: string): Body | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function rangeOf(min: number, max: number, exclusiveMin: boolean): string {
  const low = exclusiveMin ? `above ${min}` : `at least ${min}`;
  if (max === Number.POSITIVE_INFINITY) return low;
  return min === Number.NEGATIVE_INFINITY ? `at most ${max}` : `${low} and at most ${max}`;
}
