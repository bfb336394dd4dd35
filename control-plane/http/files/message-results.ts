// Result files of a batch of messages as one list in Anthropic's format.
import { Readable } from "node:stream";
import { readLines } from "../../batches/read-lines.ts";

/** Maximum of a line of a result file. */
const usualMaxLineBytes = 80 * 1024 * 1024;

/** Opens all files before the first byte, so that a missing one is an error of the request. Throws the errors of `open`. */
export async function messageResults<Name>(
  names: readonly Name[],
  open: (name: Name) => Promise<Readable>,
  maxLineBytes = usualMaxLineBytes,
): Promise<Readable> {
  const bodies: Readable[] = [];
  const close = () => {
    for (const body of bodies) body.destroy();
  };
  try {
    for (const name of names) bodies.push(await open(name));
  } catch (error) {
    close();
    throw error;
  }
  // Not in the generator: it does not begin when the client disconnects before the first byte.
  return Readable.from(linesOf(bodies, maxLineBytes), { objectMode: false }).once("close", close);
}

async function* linesOf(bodies: readonly Readable[], maxLineBytes: number): AsyncGenerator<string> {
  for (const body of bodies)
    for await (const { text, start = "" } of readLines(body, maxLineBytes)) {
      const result = text === undefined ? tooLong(start, maxLineBytes) : resultOf(text);
      if (result !== undefined) yield `${result}\n`;
    }
}

const customIdForm = /^\{"id":"[^"]*","custom_id":("(?:[^"\\]|\\.)*"),/;

function tooLong(start: string, maxLineBytes: number): string | undefined {
  const customId = customIdForm.exec(start)?.[1];
  if (customId === undefined) return undefined;
  const mib = Math.floor(maxLineBytes / 1024 ** 2);
  const message = `The result is larger than ${mib} MiB. Read it from the output file of the batch: \`GET /v1/batches\` names it.`;
  return `{"custom_id":${customId},"result":${JSON.stringify(apiError(message))}}`;
}

const apiError = (message: string | undefined) => ({
  type: "errored",
  error: { type: "error", error: { type: "api_error", message }, request_id: null },
});

/** Parts of a line of a result file. A message is copied as text: its numbers may exceed 2^53. */
const lineForm =
  /^\{"id":"[^"]*","custom_id":("(?:[^"\\]|\\.)*"),"response":(?:null|\{"status_code":(\d+),"request_id":"[^"]*","body":(.*)\}),"error":(null|\{.*\})\}$/s;

function resultOf(line: string): string | undefined {
  const [, customId, status, body, error] = lineForm.exec(line) ?? [];
  if (customId === undefined) return undefined;
  const result = (json: string) => `{"custom_id":${customId},"result":${json}}`;
  if (body !== undefined && status === "200") return result(`{"type":"succeeded","message":${body}}`);
  return result(JSON.stringify(body === undefined ? notRun(error) : errored(body)));
}

function notRun(error = "null"): object {
  const { code, message } = (JSON.parse(error) ?? {}) as { readonly code?: string; readonly message?: string };
  if (code === "batch_expired") return { type: "expired" };
  if (code === "batch_cancelled") return { type: "canceled" };
  return apiError(message);
}

function errored(body: string): object {
  const { error, request_id = null } = JSON.parse(body) as { readonly error?: object; readonly request_id?: string };
  return { type: "errored", error: { type: "error", error, request_id } };
}
