// The argument parser of a real vLLM or SGLang, from a record of it (scripts/engine-arguments.py), without the engine.
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface EngineOption {
  /** Empty: the positional argument. */
  readonly names: readonly string[];
  /** Number of values, or argparse's letter for a range. */
  readonly values: number | "?" | "*" | "+";
  /** Name of the function that reads a value. Absent: text. */
  readonly type?: string;
  readonly choices?: readonly (string | number | null)[];
}

export interface EngineRecord {
  readonly version: string;
  readonly options: readonly EngineOption[];
}

/** Of vLLM: also the names in its registries. */
export interface VllmRecord extends EngineRecord {
  readonly tools: readonly string[];
  readonly reasoning: readonly string[];
  readonly quantizations: readonly string[];
}

export const recordFile = (name: string): string =>
  join(import.meta.dirname, `../fixtures/engine-arguments/${name}.json`);

export const readRecord = <R extends EngineRecord = EngineRecord>(file: string): R =>
  JSON.parse(readFileSync(file, "utf8")) as R;

/** Returns the values by the option's first name; throws what argparse would say. Abbreviations and `_` for `-` are not accepted. */
export function parseAsEngine(
  { options }: EngineRecord,
  argv: readonly string[],
): ReadonlyMap<string, readonly string[]> {
  const byName = new Map(options.flatMap((option) => option.names.map((name) => [name, option] as const)));
  const positional = options.find(({ names }) => names.length === 0);
  const found = new Map<string, readonly string[]>();
  for (let i = 0; i < argv.length; ) {
    const word = argv[i++] as string;
    if (!word.startsWith("--")) {
      if (!positional || found.has("")) throw new Error(`unrecognized arguments: ${word}`);
      found.set("", [word]);
      continue;
    }
    const at = word.indexOf("=");
    const name = at < 0 ? word : word.slice(0, at);
    const option = byName.get(name);
    if (!option) throw new Error(`unrecognized arguments: ${word}`);
    const values: string[] = [];
    if (at >= 0) values.push(word.slice(at + 1));
    else
      while (values.length < mostOf(option) && i < argv.length && !argv[i]?.startsWith("--"))
        values.push(argv[i++] as string);
    check(option, name, values, at >= 0);
    found.set(option.names[0] as string, values);
  }
  return found;
}

const mostOf = ({ values }: EngineOption): number =>
  values === "?" ? 1 : typeof values === "number" ? values : Number.POSITIVE_INFINITY;

function check(option: EngineOption, name: string, values: readonly string[], isExplicit: boolean): void {
  if (option.values === 0 && isExplicit) throw new Error(`argument ${name}: ignored explicit argument ${values[0]}`);
  const least = typeof option.values === "number" ? option.values : option.values === "+" ? 1 : 0;
  if (values.length < least) throw new Error(`argument ${name}: expected ${least} argument`);
  for (const value of values) {
    if (!isOfType(option.type, value)) throw new Error(`argument ${name}: invalid ${option.type} value: ${value}`);
    if (option.choices && !option.choices.map(String).includes(value))
      throw new Error(`argument ${name}: invalid choice: ${value} (choose from ${option.choices.join(", ")})`);
  }
}

function isOfType(type: string | undefined, value: string): boolean {
  if (type === "int") return /^-?\d+$/.test(value);
  if (type === "float") return value.trim() !== "" && Number.isFinite(Number(value));
  if (type === undefined || !/json|dict/i.test(type)) return true;
  try {
    return typeof JSON.parse(value) === "object";
  } catch {
    return false;
  }
}
