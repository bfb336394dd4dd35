// Text and files of native inference responses. Files are data URIs in the response.
import { CliError, exitCode } from "./cli-error.ts";
import { writeLocalFile } from "./local-file.ts";

type Answer = Readonly<Record<string, unknown>>;

const uri = /^data:([\w.+/-]+);base64,(.*)$/s;

/** Saves fields as files. `outputs`: `field=path`; {IDX} is the index in a list, {EXT} the extension of the type. Returns the paths. */
export function saveOutputs(answer: Answer, outputs: readonly string[]): readonly string[] {
  return outputs.flatMap((output) => {
    const cut = output.indexOf("=");
    if (cut < 1) throw new CliError("--output must be field=path, such as audio=a.wav.", exitCode.wrongUsage);
    const field = output.slice(0, cut);
    const path = output.slice(cut + 1);
    const value = answer[field];
    const files = (Array.isArray(value) ? value : [value]).map((one) => uri.exec(String(one ?? "")));
    if (files.length > 1 && !path.includes("{IDX}"))
      throw new CliError(`The response contains ${files.length} ${field}. Add {IDX} to the path.`, exitCode.wrongUsage);
    return files.map((found, index) => {
      if (!found) throw new CliError(`The response contains no file in ${field}.`, exitCode.failed);
      const [, type = "", bytes = ""] = found;
      const to = path.replaceAll("{IDX}", String(index)).replaceAll("{EXT}", extensionOf(type));
      writeLocalFile(to, Buffer.from(bytes, "base64"));
      return to;
    });
  });
}

const extensionOf = (type: string): string =>
  ({ "image/jpeg": "jpg", "audio/mpeg": "mp3" })[type] ?? type.split("/")[1] ?? "bin";

/** Generated or transcribed text unchanged; everything else as JSON with shortened files. */
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
