// Answers of native inference as a person reads them, and the files that stand in them as data URIs.
import { CliError, exitCode } from "./cli-error.ts";
import { writeLocalFile } from "./local-file.ts";

type Answer = Readonly<Record<string, unknown>>;

const uri = /^data:([\w.+/-]+);base64,(.*)$/s;

/** `wishes`: `field=path`, where {IDX} is the number of a list's item and {EXT} what its type ends in. Returns the paths. */
export function saveOutputs(answer: Answer, wishes: readonly string[]): readonly string[] {
  return wishes.flatMap((wish) => {
    const cut = wish.indexOf("=");
    if (cut < 1) throw new CliError("Give an output as field=path, such as audio=a.wav.", exitCode.wrongUsage);
    const field = wish.slice(0, cut);
    const path = wish.slice(cut + 1);
    const value = answer[field];
    const files = (Array.isArray(value) ? value : [value]).map((one) => uri.exec(String(one ?? "")));
    if (files.length > 1 && !path.includes("{IDX}"))
      throw new CliError(`The answer holds ${files.length} ${field}: put {IDX} into the path.`, exitCode.wrongUsage);
    return files.map((found, index) => {
      if (!found) throw new CliError(`The answer holds no file called ${field}.`, exitCode.failed);
      const [, type = "", bytes = ""] = found;
      const to = path.replaceAll("{IDX}", String(index)).replaceAll("{EXT}", endingOf(type));
      writeLocalFile(to, Buffer.from(bytes, "base64"));
      return to;
    });
  });
}

const endingOf = (type: string): string =>
  ({ "image/jpeg": "jpg", "audio/mpeg": "mp3" })[type] ?? type.split("/")[1] ?? "bin";

/** Generated or heard text as it is; everything else as JSON, files in it cut short. */
export function readable(answer: Answer): string {
  const { results, text } = answer;
  if (typeof text === "string") return text;
  const texts = Array.isArray(results) ? results.map((one: Answer) => one["generated_text"]) : [];
  if (texts.length > 0 && texts.every((one) => typeof one === "string")) return texts.join("\n");
  return JSON.stringify(answer, (_key, value) => (typeof value === "string" ? shortened(value) : value), 2);
}

function shortened(value: string): string {
  const [, type, bytes = ""] = uri.exec(value) ?? [];
  return type === undefined
    ? value
    : `data:${type};base64,... (${Buffer.from(bytes, "base64").length} bytes; -o saves it)`;
}
