// Runs the features of one client: reads their names from stdin, one per line, and prints the value of each as JSON. The
// environment and the format are those of ../python/driver.py.
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

const mark = ">>> ";
const read = (name: string): string => process.env[name] ?? "";
export const base = read("BASE_URL");
/** By TLS, which clients of WebSockets require. */
export const secureBase = read("SECURE_URL");
export const key = read("API_KEY");
export const chat = read("CHAT");
export const vectors = read("VECTORS");
export const speech = read("SPEECH");
export const hearing = read("HEARING");
export const pictures = read("PICTURES");
export const ranking = read("RANKING");
export const question = "What is the answer?";
export const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
export const placeSchema = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "integer" } },
  required: ["city", "people"],
  additionalProperties: false,
} as const;
export const weather = ({ city }: { readonly city: string }): string => `sunny in ${city}`;

/** Exports of a package in the folder of npm packages of the nightly run. */
// biome-ignore lint/suspicious/noExplicitAny: types of packages that are not installed with the repository.
export const load = (name: string): any => createRequire(join(read("NPM_HOME"), "package.json"))(name);

/** `features`: functions by the names of features; each returns what the client returned. */
export async function serve(features: Readonly<Record<string, () => unknown>>): Promise<void> {
  const print = (value: object) => process.stdout.write(`${mark}${JSON.stringify(value)}\n`);
  print({ isReady: true });
  for await (const name of createInterface({ input: process.stdin })) {
    try {
      print({ value: await features[name]?.() });
    } catch (error) {
      console.error(error);
      print({ error: String(error) });
    }
  }
  process.exit();
}

/** Polls until it returns a value, at most a minute. */
export async function polled<Value>(read: () => Promise<Value | undefined>): Promise<Value> {
  const endMs = performance.now() + 60_000;
  for (;;) {
    const value = await read();
    if (value !== undefined) return value;
    if (performance.now() > endMs) throw new Error("nothing within a minute");
    await setTimeout(100);
  }
}

export async function joined(parts: AsyncIterable<string | undefined>): Promise<string> {
  let text = "";
  for await (const part of parts) text += part ?? "";
  return text;
}
