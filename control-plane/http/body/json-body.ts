// Bodies are JSON whatever the Content-Type says: known clients send none, or curl's default. Forms only where a route
// takes them; what begins as JSON is JSON there too.
import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { parseScanned } from "../../../proto/exact-json.ts";
import type { JsonScan } from "../../../proto/json-scan.ts";
import type { RequestState } from "../core/request-state.ts";
import type { Dialect } from "../errors/error-body.ts";
import { bodyCompressed, bodyNotUtf8, malformedBody } from "../errors/errors.ts";
import { digitsOf, parseExactly, seedToValidate } from "./exact-integers.ts";
import { digestOfForm, isForm, isUrlEncoded, readForm, readUrlEncoded } from "./form-body.ts";
import { receiveBody } from "./receive-body.ts";
import { judgeJson, refuseLoneSurrogate } from "./unfit-value.ts";

export interface ReadBody {
  /** The body as it came; of a form, what its parts say with an `Idempotency-Key`, nothing without. */
  readonly bytes: Buffer;
  /** The body with integers beyond 2^53 as JSON.rawJSON; undefined when there are none. */
  readonly exact: Record<string, unknown> | undefined;
}

declare module "fastify" {
  interface FastifyRequest {
    readBody: ReadBody | null;
  }
  interface FastifyContextConfig {
    /** Bodies of this route may be multipart/form-data. */
    takesForms?: boolean;
    /** In which it is refused, also by a method that it does not take. */
    dialect?: Dialect;
  }
}

/** Inference. */
export const bodyLimitBytes = 10 * 1024 * 1024;
/** Routes that are public, and management routes that do not say otherwise. */
export const smallBodyBytes = 16 * 1024;
/** Management routes whose schema allows longer bodies. */
export const mediumBodyBytes = 128 * 1024;
export const largeBodyBytes = 1024 * 1024;
/** With pictures or audio in it; an agent takes no more. */
export const mediaLimitBytes = 50 * 1024 * 1024;

const noBytes = Buffer.alloc(0);

/** For every route registered in `app` from now on. */
export function readJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (request, payload, done) => {
    // Of a path that nobody serves nothing is read.
    if (request.is404) return void done(null, undefined);
    const { bodyLimit = bodyLimitBytes } = request.routeOptions;
    receiveBody(payload, request.state as RequestState, bodyLimit, (error, bytes) => {
      if (bytes) parse(request, bytes, done);
      else done(error);
    });
  });
}

function parse(request: FastifyRequest, bytes: Buffer, done: (error: Error | null, body?: unknown) => void): void {
  if (bytes.length === 0) {
    done(null, undefined);
    return;
  }
  try {
    refuseCompressed(request.headers);
  } catch (error) {
    return void done(error as Error);
  }
  const type = request.headers["content-type"];
  if (request.routeOptions.config.takesForms && isForm(type)) {
    readForm(bytes, type).then((form) => {
      // Its boundary is another one each time it is sent; what it says is the same.
      const isRepeatable = request.headers["idempotency-key"] !== undefined;
      request.readBody = { bytes: isRepeatable ? digestOfForm(form) : noBytes, exact: undefined };
      done(null, form);
    }, done);
    return;
  }
  if (
    request.routeOptions.config.takesForms &&
    isUrlEncoded(type) &&
    !/^\s*[{[]/.test(bytes.toString("latin1", 0, 64))
  ) {
    if (!isUtf8(bytes)) return void done(bodyNotUtf8());
    request.readBody = { bytes, exact: undefined };
    try {
      done(null, readUrlEncoded(bytes));
    } catch (error) {
      done(error as Error);
    }
    return;
  }
  try {
    const { value, exact } = readJson(bytes);
    request.readBody = { bytes, exact };
    done(null, value);
  } catch (error) {
    done(error as Error);
  }
}

/** Throws bodyCompressed. */
export function refuseCompressed(headers: IncomingHttpHeaders): void {
  const encoding = headers["content-encoding"] || "identity";
  if (encoding !== "identity") throw bodyCompressed(encoding);
}

/** Throws malformedBody, bodyNotUtf8, textNotUnicode, nestedTooDeep, jsonTooComplex. */
export function readJson(bytes: Buffer): { readonly value: unknown; readonly exact: ReadBody["exact"] } {
  const scan = judgeJson(bytes);
  const value = parsed(bytes, scan);
  if (scan.hasLoneSurrogate) refuseLoneSurrogate(value);
  if (scan.longIntegers.length === 0 || !isObject(value)) return { value, exact: undefined };
  const exact = parseExactly(bytes, scan) as Record<string, unknown> | undefined;
  const seed = digitsOf(exact?.["seed"]);
  if (seed !== undefined) value["seed"] = seedToValidate(seed);
  return { value, exact };
}

function parsed(bytes: Buffer, scan: JsonScan): unknown {
  try {
    return parseScanned(bytes, scan);
  } catch (error) {
    throw malformedBody(error);
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
