// A multipart form with one file, streamed to the store so that memory stays bounded. A staged file that is not used (refused,
// interrupted, or a repeated request) is discarded after the response.
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { Busboy } from "@fastify/busboy";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Files, StagedFile } from "../../files/files.ts";
import { bodyStalled, fileMissing, malformedForm, noForm } from "../errors/errors.ts";
import { isForm } from "./form-body.ts";
import { Silence, stallMs } from "./silence.ts";

declare module "fastify" {
  interface FastifyRequest {
    upload: Upload | null;
  }
}

interface Upload {
  readonly filename: string;
  readonly staged: StagedFile;
}

const limits = { fields: 50, files: 1, parts: 51, fieldNameSize: 200, fieldSize: 4_096, headerPairs: 20 };
const partName = "file";
const texts = /^(\w+)\[(\w+)\]$/;

/** Sets the body of every route of `app` to the form's fields, with the filename in place of the file. */
export function takeUploads(app: FastifyInstance, stage: Files["stage"]): void {
  app.decorateRequest("upload", null);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", async (request: FastifyRequest) => {
    const type = request.headers["content-type"];
    if (!isForm(type)) throw noForm();
    const { fields, upload } = await receive(request, type, stage);
    request.upload = upload;
    const digest = createHash("sha256").update(JSON.stringify([fields, upload.filename, upload.staged.digest]));
    request.readBody = { bytes: digest.digest(), exact: undefined };
    return { ...fields, [partName]: upload.filename };
  });
  // Also after a refusal; no-op for a file that was kept.
  app.addHook("onResponse", async (request) => request.upload?.staged.discard().catch(() => {}));
}

type Fields = Record<string, string | Record<string, string>>;

async function receive(
  request: FastifyRequest,
  type: string,
  stage: Files["stage"],
): Promise<{ readonly fields: Fields; readonly upload: Upload }> {
  const { raw, state } = request;
  // No prototype: a field may be named __proto__.
  const fields: Fields = Object.create(null);
  const cut = new AbortController();
  let filename = "";
  let staging: Promise<StagedFile> | undefined;
  let silence: Silence | undefined;
  const received = () => silence?.broken();
  const whole = new Promise<void>((resolve, reject) => {
    const form = parserOf(type);
    form.on("field", (name, value) => add(fields, name, value));
    form.on("file", (name, part, given) => {
      // Never removed: an interrupted form emits the error here even when the part is no longer read.
      part.on("error", (cause: unknown) => reject(malformedForm(cause)));
      if (name !== partName || staging) {
        part.resume();
        return;
      }
      filename = given ?? "";
      // Node's own stream: the form's does not emit an event when it is destroyed.
      const body = Readable.from(part as AsyncIterable<Buffer>, { objectMode: false });
      staging = stage(state?.caller?.account as never, body, cut.signal);
      staging.catch(reject);
    });
    for (const limit of ["fieldsLimit", "filesLimit", "partsLimit"])
      form.on(limit, () => reject(malformedForm(undefined)));
    form.on("error", (cause: unknown) => reject(malformedForm(cause)));
    form.on("finish", resolve);
    raw.once("close", () => {
      if (!raw.complete) reject(malformedForm(new Error("the client disconnected")));
    });
    if (state)
      silence = new Silence(state.waits, () => {
        // Paused by a slow store: the client is not silent.
        if (raw.isPaused()) received();
        else reject(bodyStalled(stallMs));
      });
    raw.on("data", received);
    raw.pipe(form);
  });
  try {
    await whole.finally(() => {
      silence?.end();
      raw.off("data", received);
    });
    if (!staging) throw fileMissing(partName);
    return { fields, upload: { filename, staged: await staging } };
  } catch (error) {
    raw.unpipe();
    cut.abort(error);
    // Discards a file written before a later part failed.
    staging?.then((staged) => staged.discard()).catch(() => {});
    throw error;
  }
}

/** Throws malformedForm if the header has no boundary. */
function parserOf(type: string): InstanceType<typeof Busboy> {
  try {
    return new Busboy({ headers: { "content-type": type }, limits });
  } catch (error) {
    throw malformedForm(error);
  }
}

/** Adds a field; `expires_after[seconds]` becomes a member of an object. */
function add(fields: Fields, name: string, value: string): void {
  const [, outer, inner] = texts.exec(name) ?? [];
  if (outer === undefined || inner === undefined) {
    fields[name] = value;
    return;
  }
  const known = fields[outer];
  fields[outer] = { ...(typeof known === "object" ? known : {}), [inner]: value };
}
