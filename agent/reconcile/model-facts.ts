// Facts of a model for plans, from the files of its weights. They only select entries of our own tables, because they are not trusted.
import { open } from "node:fs/promises";
import { join } from "node:path";
import { isJsonObject } from "../../proto/json-object.ts";
import type { ModelFacts } from "../engines/host-facts.ts";

/** Larger files are treated as absent. */
const maxBytes = 4 * 1024 * 1024;
/** Refusals name the type. */
const maxTypeChars = 64;

/** `folder`: weights as the hub has them. Fields are empty where a file is missing or unreadable. */
export async function readModelFacts(folder: string): Promise<ModelFacts> {
  const [config, tokenizer, template] = await Promise.all(
    ["config.json", "tokenizer_config.json", "chat_template.jinja"].map((name) => textOf(join(folder, name))),
  );
  const { model_type: type, rope_theta: theta, rope_parameters: rope } = fieldsOf(config);
  const base = isJsonObject(rope) ? (rope["rope_theta"] ?? theta) : theta;
  return {
    type: typeof type === "string" ? type.slice(0, maxTypeChars) : "",
    ropeTheta: typeof base === "number" ? base : undefined,
    // As transformers reads them: a file of its own wins.
    template: template ?? templateIn(fieldsOf(tokenizer)["chat_template"]),
  };
}

/** A text, or a list of named ones of which a model with tools has two. */
function templateIn(value: unknown): string {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return "";
  const named = value.filter(isJsonObject);
  const chosen = named.find(({ name }) => name === "tool_use") ?? named.find(({ name }) => name === "default");
  const text = chosen?.["template"];
  return typeof text === "string" ? text : "";
}

function fieldsOf(text: string | undefined): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    const file = await open(path);
    try {
      return (await file.stat()).size > maxBytes ? undefined : await file.readFile("utf8");
    } finally {
      await file.close();
    }
  } catch {
    return undefined;
  }
}
