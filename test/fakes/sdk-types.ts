// Checks values against interfaces of a package's published type declarations. Reads what generated declarations contain: interfaces
// with one field per line, literals, unions, arrays and names of interfaces of the same file. Types of other files match any value.
import { readFileSync } from "node:fs";

interface Field {
  readonly name: string;
  readonly isOptional: boolean;
  readonly type: string;
}

export interface SdkTypes {
  /** Interfaces whose field `type` is a literal, by that literal. */
  readonly byType: ReadonlyMap<string, string>;
  /** Paths of values that do not fit, with the reason; empty: it fits. */
  problems(value: unknown, type: string): readonly string[];
}

export function readSdkTypes(file: string): SdkTypes {
  const text = readFileSync(file, "utf8").replaceAll(/\/\*[\s\S]*?\*\//g, "");
  const interfaces = new Map<string, readonly Field[]>();
  const aliases = new Map<string, string>();
  // Nested namespaces repeat names: only interfaces of the top level are read.
  for (const [, name, body] of text.matchAll(/^export interface (\w+)[^{\n]*\{\n([\s\S]*?)^\}/gm))
    interfaces.set(name as string, fieldsOf(body as string));
  for (const [, name, type] of text.matchAll(/^export type (\w+) = ([^;]+);/gm))
    aliases.set(name as string, type as string);

  function problems(value: unknown, type: string, path: string): readonly string[] {
    const options = splitUnion(type);
    if (options.length > 1) {
      const all = options.map((option) => problems(value, option, path));
      // Of a union of interfaces, the one with the value's own `type` explains best.
      return all.find((one) => one.length === 0) ?? all.toSorted((a, b) => b.join().length - a.join().length)[0] ?? [];
    }
    const mismatch = [`${path}: ${JSON.stringify(value)} is not ${type}`];
    const literal = /^'(.*)'$/.exec(type)?.[1];
    if (literal !== undefined) return value === literal ? [] : mismatch;
    if (type === "null") return value === null ? [] : mismatch;
    if (type === "string" || type === "number" || type === "boolean") return typeof value === type ? [] : mismatch;
    const item = /^Array<(.*)>$/s.exec(type)?.[1];
    if (item !== undefined) {
      if (!Array.isArray(value)) return mismatch;
      return value.flatMap((one, i) => problems(one, item, `${path}.${i}`));
    }
    const alias = aliases.get(type);
    if (alias !== undefined) return problems(value, alias, path);
    const fields = interfaces.get(type);
    if (!fields) return [];
    if (typeof value !== "object" || value === null) return mismatch;
    return fields.flatMap(({ name, isOptional, type: of }) => {
      const given = (value as Record<string, unknown>)[name];
      if (given !== undefined) return problems(given, of, `${path}.${name}`);
      return isOptional ? [] : [`${path}.${name} is missing`];
    });
  }

  const byType = new Map(
    [...interfaces].flatMap(([name, fields]) => {
      const literal = /^'(.*)'$/.exec(fields.find((one) => one.name === "type")?.type ?? "")?.[1];
      return literal === undefined ? [] : [[literal, name] as const];
    }),
  );
  return { byType, problems: (value, type) => problems(value, type, type) };
}

function fieldsOf(body: string): readonly Field[] {
  const fields: Field[] = [];
  // Only fields of the interface itself: four spaces.
  for (const [, name, mark, type] of body.matchAll(/^ {4}(\w+)(\??): ([^;{]+|\{[\s\S]*?^ {4}\}[^;]*);/gm))
    fields.push({ name: name as string, isOptional: mark === "?", type: (type as string).trim() });
  return fields;
}

/** Members of a union at the top level. */
function splitUnion(type: string): readonly string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  for (let i = 0; i < type.length; i++) {
    if ("<({[".includes(type[i] as string)) depth += 1;
    else if (">)}]".includes(type[i] as string)) depth -= 1;
    else if (type[i] === "|" && depth === 0) {
      parts.push(type.slice(from, i).trim());
      from = i + 1;
    }
  }
  parts.push(type.slice(from).trim());
  return parts;
}
