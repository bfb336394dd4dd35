// A multipart/form-data body, bounded.
import type { IncomingMessage } from "node:http";
import { Busboy, type BusboyHeaders } from "@fastify/busboy";
import type { Body } from "./fields.ts";
import { RequestError } from "./request-error.ts";

export interface FormFile {
  readonly name: string;
  readonly bytes: Buffer;
}

export interface Form {
  /** Texts; a field whose name ends in `[]` or comes again is a list, under its bare name. */
  readonly fields: Body;
  readonly files: readonly FormFile[];
}

/** Above what the gateway lets through, so that the limit a customer meets is the gateway's. */
const maxBytes = 256 * 1024 * 1024;
const limits = { fields: 100, files: 8, fieldNameSize: 100, fieldSize: 64 * 1024, headerPairs: 20, fileSize: maxBytes };

/** Throws RequestError. */
export async function readForm(request: IncomingMessage): Promise<Form> {
  const contentType = request.headers["content-type"] ?? "";
  if (!/^multipart\/form-data\b/i.test(contentType))
    throw new RequestError(400, "the body must be multipart/form-data with the file in a part of its own");
  const fields: Record<string, string | string[]> = {};
  const files: FormFile[] = [];
  await new Promise<void>((resolve, reject) => {
    const unreadable = (cause?: unknown) =>
      reject(new RequestError(400, "the form cannot be read; send it as multipart/form-data", { cause }));
    const tooLarge = () =>
      reject(
        new RequestError(413, `the body is above ${maxBytes / 1024 / 1024} MiB`, { headers: { connection: "close" } }),
      );
    let form: InstanceType<typeof Busboy>;
    try {
      form = new Busboy({ headers: request.headers as BusboyHeaders, limits });
    } catch (error) {
      return unreadable(error);
    }
    form.on("field", (name, value, _, isCut) => {
      if (isCut) return unreadable();
      add(fields, name, value);
    });
    form.on("file", (name, stream) => {
      const parts: Buffer[] = [];
      stream.on("data", (part: Buffer) => parts.push(part));
      stream.on("limit", tooLarge);
      stream.on("error", unreadable);
      stream.on("end", () => files.push({ name, bytes: Buffer.concat(parts) }));
    });
    for (const limit of ["fieldsLimit", "filesLimit", "partsLimit"] as const) form.on(limit, () => unreadable());
    form.on("error", unreadable);
    form.on("finish", resolve);
    request.on("error", reject);
    request.on("close", () => {
      if (!request.complete) reject(new Error("the client disconnected"));
    });
    request.pipe(form);
  });
  return { fields, files };
}

function add(fields: Record<string, string | string[]>, given: string, value: string): void {
  const isList = given.endsWith("[]");
  const name = isList ? given.slice(0, -2) : given;
  const known = Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (known === undefined) fields[name] = isList ? [value] : value;
  else fields[name] = [...[known].flat(), value];
}
