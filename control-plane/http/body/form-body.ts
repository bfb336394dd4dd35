// multipart/form-data bodies: parts with a filename are files, the others values. Parsed from a bounded buffer; written for an
// engine with a new boundary.
import { hash, randomBytes } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Busboy } from "@fastify/busboy";
import type { FastifyRequest } from "fastify";
import type { TSchema } from "typebox";
import { malformedForm, partTooLarge } from "../errors/errors.ts";
import { exactInteger, seedToValidate } from "./exact-integers.ts";
import { judgeJson, refuseLoneSurrogate } from "./unfit-value.ts";

export class FormFile {
  readonly filename: string;
  readonly contentType: string;
  readonly bytes: Buffer;
  constructor(filename: string, contentType: string, bytes: Buffer) {
    this.filename = filename;
    this.contentType = contentType;
    this.bytes = bytes;
  }
}

export type FormPart = string | FormFile;

/** Maximum size of one field. */
const maxFieldBytes = 10 * 1024 ** 2;
const limits = { fields: 200, files: 32, fieldNameSize: 200, headerPairs: 20 };

export const isForm = (contentType: string | undefined): contentType is string =>
  contentType !== undefined && /^multipart\/form-data\b/i.test(contentType);

export const isUrlEncoded = (contentType: string | undefined): boolean =>
  contentType !== undefined && /^application\/x-www-form-urlencoded\b/i.test(contentType);

/** Fields by name; a repeated name becomes a list. Throws malformedForm. */
export function readUrlEncoded(bytes: Buffer): Record<string, string | string[]> {
  let fields = 1;
  for (let at = bytes.indexOf(ampersand); at >= 0; at = bytes.indexOf(ampersand, at + 1))
    if (++fields > limits.fields) throw malformedForm(undefined);
  const found = new Map<string, string[]>();
  for (const [name, value] of new URLSearchParams(bytes.toString()))
    found.set(name, [...(found.get(name) ?? []), value]);
  return Object.fromEntries([...found].map(([name, all]) => [name, all.length === 1 ? (all[0] as string) : all]));
}
const ampersand = 0x26;

/** Parts by name; a repeated name, or one that ends in `[]`, becomes a list. Rejects with malformedForm, partTooLarge. */
export function readForm(bytes: Buffer, contentType: string): Promise<Record<string, FormPart | FormPart[]>> {
  return new Promise((resolve, reject) => {
    const found = new Map<string, FormPart | FormPart[]>();
    const add = (given: string, part: FormPart): void => {
      const isList = given.endsWith("[]");
      const name = isList ? given.slice(0, -2) : given;
      const known = found.get(name);
      if (Array.isArray(known)) known.push(part);
      else if (known !== undefined) found.set(name, [known, part]);
      else found.set(name, isList ? [part] : part);
    };
    let isRefused = false;
    const refuse = (error: Error): void => {
      isRefused = true;
      reject(error);
    };
    const fail = (cause?: unknown): void => refuse(malformedForm(cause));
    try {
      const form = new Busboy({
        headers: { "content-type": contentType },
        limits: { ...limits, fieldSize: maxFieldBytes, fileSize: bytes.length },
      });
      form.on("field", (name, value, _isNameCut, isValueCut) => {
        if (isValueCut) refuse(partTooLarge(name.slice(0, 64), maxFieldBytes));
        else add(name, value);
      });
      form.on("file", (name, stream, filename, _encoding, type) => {
        const parts: Buffer[] = [];
        stream.on("data", (part: Buffer) => parts.push(part));
        stream.on("error", fail);
        stream.on("end", () => add(name, new FormFile(filename, type, Buffer.concat(parts))));
      });
      for (const limit of ["fieldsLimit", "filesLimit", "partsLimit"]) form.on(limit, () => fail());
      form.on("error", fail);
      form.on("finish", () => resolve(Object.fromEntries(found)));
      feed(form, bytes, () => isRefused).catch(fail);
    } catch (error) {
      fail(error);
    }
  });
}

/** Parses in pieces, so that other requests run in between. */
async function feed(form: InstanceType<typeof Busboy>, bytes: Buffer, isRefused: () => boolean): Promise<void> {
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    if (at > 0) await nextTurn();
    if (isRefused()) return;
    form.write(bytes.subarray(at, at + pieceBytes));
  }
  form.end();
}
const pieceBytes = 64 * 1024;

/** Digest of names, values, files and the order within one name; independent of the boundary. */
export function digestOfForm(form: Readonly<Record<string, FormPart | FormPart[]>>): Buffer {
  const contentOf = (part: FormPart) =>
    part instanceof FormFile
      ? { file: hash("sha256", part.bytes), filename: part.filename, contentType: part.contentType }
      : part;
  const parts = Object.entries(form)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, part]) => [name, Array.isArray(part) ? part.map(contentOf) : contentOf(part)]);
  return hash("sha256", JSON.stringify(parts), "buffer");
}

/** Unwraps fields in the part `wrapper`: JSON in that part, or parts `wrapper[name]` and `wrapper.name`. */
export function unwrapForm(wrapper: string) {
  const inner = new RegExp(`^${wrapper}(?:\\[(\\w+)|\\.(\\w+)$)`);
  return (request: FastifyRequest, _reply: unknown, done: () => void): void => {
    const body = request.body as Record<string, unknown> | null | undefined;
    if (typeof body === "object" && body !== null) {
      for (const [name, value] of Object.entries(body)) {
        const [, bracketed, dotted] = inner.exec(name) ?? [];
        const field = bracketed ?? dotted;
        if (field !== undefined) body[field] ??= value;
      }
      const { [wrapper]: whole } = body;
      const text = whole instanceof FormFile ? whole.bytes.toString() : whole;
      const fields = typeof text === "string" ? parsedOf(text) : text;
      // A field that is also sent flat takes precedence.
      if (typeof fields === "object" && fields !== null && !Array.isArray(fields))
        request.body = { ...fields, ...body };
    }
    done();
  };
}

export interface WrittenForm {
  readonly contentType: string;
  readonly bytes: Buffer;
}

/** Writes a list as parts of the same name; omits null and undefined. */
export function writeForm(fields: readonly (readonly [name: string, value: unknown])[]): WrittenForm {
  const boundary = `stoker-${randomBytes(16).toString("hex")}`;
  const parts: Buffer[] = [];
  const write = (name: string, value: unknown): void => {
    if (value === null || value === undefined) return;
    const head = `--${boundary}\r\ncontent-disposition: form-data; name="${quoted(name)}"`;
    if (value instanceof FormFile) {
      const file = `${head}; filename="${quoted(value.filename)}"\r\ncontent-type: ${value.contentType}\r\n\r\n`;
      parts.push(Buffer.from(file), value.bytes, newline);
    } else parts.push(Buffer.from(`${head}\r\n\r\n${typeof value === "string" ? value : JSON.stringify(value)}\r\n`));
  };
  for (const [name, value] of fields) {
    if (Array.isArray(value)) for (const one of value) write(name, one);
    else write(name, value);
  }
  parts.push(Buffer.from(`--${boundary}--\r\n`));
  return { contentType: `multipart/form-data; boundary=${boundary}`, bytes: Buffer.concat(parts) };
}

const newline = Buffer.from("\r\n");

/** Escapes as browsers do: a quote or a line break would end the header. */
const quoted = (text: string) => text.replaceAll('"', "%22").replaceAll("\r", "%0D").replaceAll("\n", "%0A");

/** Converts the texts of a form to the types that their fields have in the schema. */
export function coerceForm(schema: TSchema) {
  const properties = (schema as { properties?: Record<string, Property> }).properties ?? {};
  return (request: FastifyRequest, _reply: unknown, done: () => void): void => {
    const body = request.body as Record<string, unknown> | null | undefined;
    if (typeof body === "object" && body !== null) {
      if ("seed" in properties) keepSeed(request, body);
      coerceFields(body, properties);
    }
    done();
  };
}

/** Keeps a long seed exactly, in `readBody.exact`. */
function keepSeed(request: FastifyRequest, body: Record<string, unknown>): void {
  const { seed } = body;
  const exact = typeof seed === "string" ? exactInteger(seed) : undefined;
  if (!exact) return;
  const { bytes = noBytes, exact: others } = request.readBody ?? {};
  request.readBody = { bytes, exact: { ...others, seed: exact } };
  body["seed"] = seedToValidate(seed as string);
}
const noBytes = Buffer.alloc(0);

interface Property {
  readonly type?: unknown;
  readonly anyOf?: readonly { readonly type?: unknown }[];
}

export function coerceFields(values: Record<string, unknown>, properties: Readonly<Record<string, Property>>): void {
  for (const [name, { type, anyOf = [] }] of Object.entries(properties)) {
    const value = values[name];
    const wants = (one: string) => type === one || (Array.isArray(type) && type.includes(one));
    if (wants("array") && value !== undefined && value !== null && !Array.isArray(value)) {
      const parsed = typeof value === "string" && value.startsWith("[") ? parsedOf(value) : undefined;
      values[name] = Array.isArray(parsed) ? parsed : [value];
    } else if (typeof value !== "string") continue;
    else if (wants("boolean") && /^(true|false)$/i.test(value)) values[name] = value.toLowerCase() === "true";
    else if ((wants("integer") || wants("number")) && value.length <= maxNumeral && numeral.test(value))
      values[name] = Number(value);
    else if (value.startsWith("{") && (wants("object") || anyOf.some((one) => one.type === "object")))
      values[name] = parsedOf(value) ?? value;
  }
}

/** Longer than any printed double. */
const maxNumeral = 400;
/** Numbers as clients of any language print them: 0.00001 is 1e-05 in some. */
const numeral = /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d{1,3})?$/i;

/** Throws textNotUnicode, nestedTooDeep, jsonTooComplex. */
function parsedOf(text: string): unknown {
  const { hasLoneSurrogate } = judgeJson(Buffer.from(text));
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (hasLoneSurrogate) refuseLoneSurrogate(value);
  return value;
}
