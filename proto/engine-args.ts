// Extra arguments of engines: an allowlist with typed values, never a denylist. Engines take `_` for `-`, unique prefixes
// and dotted keys, so only the exact name, the exact form and a value of the right type reach argv. The control plane checks
// arguments, and the agent checks them again, so that a compromised control plane cannot add one.
import { type ArgRule, type ArgRules, heeded, stored, unheeded } from "./engine-arg-rules.ts";

const form = /^--([a-z0-9-]+)(?:=(.{0,512}))?$/;
const maxArgs = 32;
const ggufForm = /^([A-Za-z0-9][\w.-]{0,95}\/[\w.-]{1,96})(?::([\w][\w./+-]{0,200}\.gguf))?$/;

/** Disables adapters: vLLM does not start some architectures with adapters enabled. */
export const noAdapters = "--no-enable-lora";

/** Checks requested arguments. Returns undefined if all of them take effect, otherwise a sentence on the first that does not. */
export function whyArgsRefused(reader: string, args: readonly string[]): string | undefined {
  return firstRefused(reader, args, heeded);
}

/** Checks stored arguments: an agent accepts those of older rows, and nothing else. */
export function whyStoredArgsRefused(engine: string, args: readonly string[]): string | undefined {
  return firstRefused(engine, args, stored);
}

function firstRefused(
  reader: string,
  args: readonly string[],
  tables: Readonly<Record<string, ArgRules>>,
): string | undefined {
  const rules = (Object.hasOwn(tables, reader) && tables[reader]) || {};
  if (args.length > maxArgs) return `At most ${maxArgs} extra arguments are taken.`;
  const seen = new Set<string>();
  for (const arg of args) {
    const parts = form.exec(arg);
    if (!parts) return `${quote(arg)} is not of the form --name or --name=value.`;
    const [, name, value] = parts as unknown as [string, string, string | undefined];
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    const why = rule ? refuse(rule, value) : "";
    if (why !== undefined) return sentence(reader, rules, name, arg, why);
    if (seen.has(name)) return `${quote(`--${name}`)} is given twice.`;
    seen.add(name);
  }
  return undefined;
}

/** Names the argument, the engine and what would work. `why`: reason for a refused value; empty for an unknown name. */
function sentence(reader: string, rules: ArgRules, name: string, arg: string, why: string): string {
  const instead = reader === "stoker" && Object.hasOwn(unheeded, name) ? unheeded[name] : undefined;
  if (instead !== undefined) return `${quote(arg)} has no effect on the engine stoker: ${instead}. Leave it out.`;
  const engine = reader === "stoker-onnx" ? "engine stoker with ONNX weights" : `engine ${reader}`;
  if (why !== "") return `${quote(arg)}: ${why} on the ${engine}.`;
  const known = Object.keys(rules).map((key) => `--${key}`);
  const list = known.length > 0 ? `It takes ${known.join(", ")}.` : "It takes none; leave extra_args out.";
  return `${quote(`--${name}`)} is no argument that the ${engine} takes. ${list}`;
}

function refuse(rule: ArgRule, value: string | undefined): string | undefined {
  if (rule.kind === "flag") return value === undefined ? undefined : "it takes no value";
  if (value === undefined) return "it needs a value, as --name=value";
  if (rule.kind === "one-of")
    return rule.values.includes(value) ? undefined : `its value is one of ${rule.values.join(", ")}`;
  if (rule.kind === "gguf")
    return ggufForm.test(value) && !value.includes("..")
      ? undefined
      : "its value is owner/name or owner/name:file.gguf";
  if (rule.kind === "json") return refuseJson(rule.keys, value);
  const isNumber = rule.kind === "integer" ? /^\d{1,9}$/.test(value) : /^\d{1,4}(\.\d{1,6})?$/.test(value);
  const isInside = isNumber && Number(value) >= rule.min && Number(value) <= rule.max;
  return isInside
    ? undefined
    : `its value is ${rule.kind === "integer" ? "an integer" : "a number"} from ${rule.min} to ${rule.max}`;
}

function refuseJson(keys: readonly string[], value: string): string | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(value);
  } catch {
    return "its value is not JSON";
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return "its value is a JSON object";
  const unknown = Object.keys(parsed).find((key) => !keys.includes(key));
  return unknown === undefined ? undefined : `${quote(unknown)} is not one of ${keys.join(", ")}`;
}

const quote = (text: string) => JSON.stringify(text.slice(0, 80));

/** Model named by `--draft-model`. */
export function draftModelOf(
  args: readonly string[],
): { readonly repo: string; readonly file: string | undefined } | undefined {
  const given = args.find((arg) => arg.startsWith("--draft-model="))?.slice("--draft-model=".length);
  const [, repo, file] = ggufForm.exec(given ?? "") ?? [];
  return repo === undefined ? undefined : { repo, file };
}
