// Lines that a shell runs as they stand: the key comes from STOKER_API_KEY, the server from the record's own address.
import { demoModelNamed } from "../../catalog/demo-models.ts";
import type { ServedModel } from "../../catalog/served-model.ts";
import { exampleOf, type TaskExample } from "./examples.ts";

type Model = Pick<ServedModel, "name" | "task">;

/** One second of silence as a WAV file on standard output: 16 kHz, 16 bits. Put your own file in its place. */
const silence =
  "{ printf 'RIFF\\044\\175\\000\\000WAVEfmt \\020\\000\\000\\000\\001\\000\\001\\000\\200\\076\\000\\000\\000\\175\\000\\000\\002\\000\\020\\000data\\000\\175\\000\\000'; " +
  "head -c 32000 /dev/zero; } | ";

export const inferencePath = (name: string): string =>
  `/v1/inference/${name.split("/").map(encodeURIComponent).join("/")}`;

/** `origin`: scheme, host and port of this server. */
export function curlOf({ name, task }: Model, origin: string): string {
  const { request, file } = callOf({ name, task });
  const head = `curl -sS ${quoted(origin + inferencePath(name))} -H "Authorization: Bearer $STOKER_API_KEY"`;
  if (file !== undefined) return `${silence}${head} -F ${quoted(`${file}=@-;filename=${file}.wav`)}`;
  return `${head} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(request))}`;
}

export function commandOf({ name, task }: Model): string {
  const { request, file } = callOf({ name, task });
  const fields = Object.entries(request).map(([field, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return ` -i ${quoted(`${field}=${text}`)}`;
  });
  const start = file === undefined ? "" : silence;
  return `${start}stoker infer -m ${quoted(name)}${fields.join("")}${file === undefined ? "" : ` -i ${file}=@-`}`;
}

function callOf({ name, task }: Model): Pick<TaskExample, "request" | "file"> {
  const usual = exampleOf(task);
  return { ...usual, request: demoModelNamed(name)?.example ?? usual.request };
}

/** As one word of a POSIX shell, whatever it holds. */
const quoted = (text: string): string => (/^[\w./:=@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
