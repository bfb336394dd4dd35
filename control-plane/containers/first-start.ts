// Turns `cloud_init_user_data` into the script that the container runs at its first start: a `#!` script unchanged, a
// cloud-config translated.
import { parseDocument } from "yaml";
import { scriptOf } from "./cloud-config.ts";
import { firstStartRefused } from "./errors.ts";

export interface FirstStart {
  readonly script: string;
  /** True when the script itself may grant access. */
  readonly mayOpen: boolean;
}

/** Limit against YAML alias expansion attacks. */
const maxAliases = 50;
/** The script travels as one environment variable, in base64. */
const maxBytes = 90_000;

/** Throws firstStartRefused. */
export function readFirstStart(userData: string): FirstStart {
  const text = userData.replace(/\r\n/g, "\n");
  if (text.includes("\0")) throw firstStartRefused("cloud_init_user_data contains a NUL character.");
  if (Buffer.byteLength(text) > maxBytes)
    throw firstStartRefused(`cloud_init_user_data is longer than ${maxBytes} bytes; fetch large files instead.`);
  if (text.startsWith("#!")) return { script: text, mayOpen: true };
  if (/^#cloud-config[ \t]*(\n|$)/.test(text)) return scriptOf(readYaml(text));
  throw firstStartRefused("cloud_init_user_data must start with #! (a script) or #cloud-config (YAML).");
}

function readYaml(text: string): Readonly<Record<string, unknown>> {
  const document = parseDocument(text, { prettyErrors: true, uniqueKeys: true });
  const [error] = document.errors;
  if (error) throw firstStartRefused(`cloud_init_user_data is not readable YAML: ${error.message.slice(0, 300)}`);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: maxAliases });
  } catch (cause) {
    throw firstStartRefused(`cloud_init_user_data is not readable YAML: ${(cause as Error).message.slice(0, 300)}`);
  }
  if (value === null || value === undefined) return {};
  if (typeof value !== "object" || Array.isArray(value))
    throw firstStartRefused("cloud_init_user_data: a cloud-config must be a map, such as runcmd: [...].");
  return value as Readonly<Record<string, unknown>>;
}
