import { readFileSync } from "node:fs";
import { InvalidArgumentError } from "commander";
import { unreadable } from "./local-file.ts";

export function atLeast(min: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < min)
      throw new InvalidArgumentError(`Must be a whole number of at least ${min}.`);
    return value;
  };
}

/** For page sizes: more than the server's maximum is an error. */
export function between(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < min || value > max)
      throw new InvalidArgumentError(`Must be a whole number from ${min} to ${max}.`);
    return value;
  };
}

/** A segment of the path: must not be empty. */
export function hostName(text: string): string {
  if (text.trim() === "")
    throw new InvalidArgumentError("Must be the name or id of a host. `stoker node list` shows both.");
  return text;
}

export const collect = (text: string, before: string[] = []): string[] => [...before, text];

/** `90`, `90s`, `30m`, `2h` or `7d`, in seconds. */
export function seconds(text: string): number {
  const found = /^(\d+)(s|m|h|d)?$/.exec(text);
  if (!found) throw new InvalidArgumentError("Must be a time such as 90s, 30m, 2h or 7d.");
  return Number(found[1]) * { s: 1, m: 60, h: 3600, d: 86_400 }[(found[2] ?? "s") as "s" | "m" | "h" | "d"];
}

/** `-i name=value` and `-i name=@file`. Values are parsed as JSON if possible, except text fields; media become data URIs. */
export function inputs(text: string, before: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const cut = text.indexOf("=");
  if (cut < 1) throw new InvalidArgumentError("Must be name=value or name=@file.");
  const name = text.slice(0, cut);
  const given = text.slice(cut + 1);
  if (!given.startsWith("@")) return { ...before, [name]: textFields.has(name) ? given : jsonOr(given) };
  const bytes = readInput(given.slice(1));
  if (mediaFields.has(name)) return { ...before, [name]: dataUri(bytes) };
  const value = bytes.toString();
  return { ...before, [name]: textFields.has(name) ? value : jsonOr(value) };
}

const textFields: ReadonlySet<string> = new Set([
  "prompt",
  "negative_prompt",
  "initial_prompt",
  "input",
  "text",
  "question",
  "context",
  "instruction",
  "user",
  "model",
]);
const mediaFields: ReadonlySet<string> = new Set(["audio", "image"]);

/** Data URI with the media type of the file's first bytes. */
function dataUri(bytes: Buffer): string {
  const head = bytes.subarray(0, 4).toString("latin1");
  const known = { RIFF: "audio/wav", fLaC: "audio/flac", OggS: "audio/ogg", "\x89PNG": "image/png" }[head];
  const type = known ?? (head.startsWith("\xff\xd8") ? "image/jpeg" : "application/octet-stream");
  return `data:${type};base64,${bytes.toString("base64")}`;
}

/** `-`: stdin. */
export function readInput(path: string): Buffer {
  try {
    return readFileSync(path === "-" ? 0 : path);
  } catch (cause) {
    throw new InvalidArgumentError(unreadable(path, cause));
  }
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** `H100-80GB=16`, repeated: numbers by GPU type. */
export function counts(text: string, before: Readonly<Record<string, number>> = {}): Record<string, number> {
  const { name, value } = count(text);
  return { ...before, [name]: atLeast(0)(value) };
}

/** A whole number, or `default`, because the value of an option cannot be null. */
export const countOrDefault = (text: string): number | "default" => (text === "default" ? text : atLeast(0)(text));

export const orNull = <Value>(value: Value | "default"): Value | null => (value === "default" ? null : value);

/** The same by GPU type, repeated; `default` is null. */
export function countsOrDefault(
  text: string,
  before: Readonly<Record<string, number | null>> = {},
): Record<string, number | null> {
  const { name, value } = count(text);
  return { ...before, [name]: orNull(countOrDefault(value)) };
}

function count(text: string): { readonly name: string; readonly value: string } {
  const found = /^([\w-]+)=(\w+)$/.exec(text);
  if (!found) throw new InvalidArgumentError("Must be a GPU type and a number, such as H100-80GB=16.");
  return { name: found[1] as string, value: found[2] as string };
}

/** A price: 0, or USD 0.000000001 to `maxUsd`. */
export const price =
  (maxUsd: number) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d+(\.\d{1,9})?$/.test(text) || value > maxUsd)
      throw new InvalidArgumentError(`Must be 0, or from USD 0.000000001 to ${maxUsd.toLocaleString("en")}.`);
    return value;
  };

/** An amount of USD, such as 20, 0.5 or -3. */
export function money(text: string): number {
  if (!/^-?\d+(\.\d{1,9})?$/.test(text)) throw new InvalidArgumentError("Must be an amount in USD, such as 20 or 0.5.");
  return Number(text);
}
