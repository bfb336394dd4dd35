// Checks a repository's small files before the large ones are downloaded.
import { unsupported } from "./choose-file.ts";

/** Files whose `auto_map` makes a loader import Python from the repository. */
const loaders = /(^|\/)(config|tokenizer_config|generation_config|processor_config|preprocessor_config)\.json$/;

const adapterConfig = /(^|\/)adapter_config\.json$/;

/** Throws when the file requires running code, or is not of the type that its name states. */
export function judgeText(repo: string, path: string, text: string): void {
  if (loaders.test(path)) {
    const value = objectIn(repo, path, text);
    if (Object.hasOwn(value, "auto_map"))
      throw unsupported(
        `${repo} asks for Python code of its own to be run (auto_map in ${path}), which is refused: deploy a repository of the same model that the engine knows without it.`,
      );
  }
  if (adapterConfig.test(path)) {
    const type = objectIn(repo, path, text)["peft_type"];
    if (type !== "LORA")
      throw unsupported(
        `${repo} is an adapter of kind ${JSON.stringify(type ?? null).slice(0, 40)}: only LORA adapters can be loaded.`,
      );
  }
}

/** Returns true if a file of this name is checked. */
export const isJudged = (path: string): boolean => loaders.test(path) || adapterConfig.test(path);

function objectIn(repo: string, path: string, text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw unsupported(`${path} in ${repo} is not a JSON object: name a repository whose files are whole.`);
}
