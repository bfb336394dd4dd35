// `cloud_init_user_data` becomes one script that the container carries out at its first start: a `#!` script as it is, a
// cloud-config translated.
import { parseDocument } from "yaml";
import { scriptOf } from "./cloud-config.ts";
import { FirstStartRefused } from "./errors.ts";

export interface FirstStart {
  readonly script: string;
  /** It may let somebody in by itself. */
  readonly mayOpen: boolean;
}

/** An alias that stands for itself many times over is no configuration. */
const mostAliases = 50;
/** It travels as one environment variable, in base64. */
const mostBytes = 90_000;

/** Throws FirstStartRefused. */
export function readFirstStart(userData: string): FirstStart {
  const text = userData.replace(/\r\n/g, "\n");
  if (text.includes("\0")) throw new FirstStartRefused("cloud_init_user_data holds a NUL character.");
  if (Buffer.byteLength(text) > mostBytes)
    throw new FirstStartRefused(`cloud_init_user_data is longer than ${mostBytes} bytes; fetch large files instead.`);
  if (text.startsWith("#!")) return { script: text, mayOpen: true };
  if (/^#cloud-config[ \t]*(\n|$)/.test(text)) return scriptOf(readYaml(text));
  throw new FirstStartRefused(
    "cloud_init_user_data begins with neither #! (a script) nor #cloud-config (YAML). Write one of them as its first line.",
  );
}

function readYaml(text: string): Readonly<Record<string, unknown>> {
  const document = parseDocument(text, { prettyErrors: true, uniqueKeys: true });
  const [error] = document.errors;
  if (error) throw new FirstStartRefused(`cloud_init_user_data is not readable YAML: ${error.message.slice(0, 300)}`);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: mostAliases });
  } catch (cause) {
    throw new FirstStartRefused(`cloud_init_user_data is not readable YAML: ${(cause as Error).message.slice(0, 300)}`);
  }
  if (value === null || value === undefined) return {};
  if (typeof value !== "object" || Array.isArray(value))
    throw new FirstStartRefused("cloud_init_user_data: a cloud-config is a map of keys, such as runcmd: [...].");
  return value as Readonly<Record<string, unknown>>;
}
