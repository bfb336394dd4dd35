// Parses bodies as JSON regardless of the Content-Type: known clients send none, or curl's default. Forms are parsed only for
// routes that accept them, and only if the body does not start like JSON.

import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { parseScanned } from "../../../proto/exact-json.ts";
import { isJsonObject } from "../../../proto/json-object.ts";
import type { JsonScan } from "../../../proto/json-scan.ts";
import type { RequestState } from "../core/request-state.ts";
import type { Dialect } from "../errors/error-body.ts";
import { bodyCompressed, bodyNotUtf8, malformedBody } from "../errors/errors.ts";
import { digitsOf, parseExactly, seedToValidate } from "./exact-integers.ts";
import { digestOfForm, isForm, isUrlEncoded, readForm, readUrlEncoded } from "./form-body.ts";
import { receiveBody } from "./receive-body.ts";
import { judgeJson, refuseLoneSurrogate } from "./unfit-value.ts";

export interface ReadBody {
  /** Received body. For a form with an `Idempotency-Key`, its digest; for any other form, empty. */
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
    /** Error format of the route, also for a method that it does not support. */
    dialect?: Dialect;
  }
}

/** Limit of inference routes. */
export const bodyLimitBytes = 10 * 1024 * 1024;
/** Limit of public routes, and default of management routes. */
export const smallBodyBytes = 16 * 1024;
/** Limit of management routes whose schema allows longer bodies. */
export const mediumBodyBytes = 128 * 1024;
export const largeBodyBytes = 1024 * 1024;
/** With pictures or audio in it; an agent takes no more. */
export const mediaLimitBytes = 50 * 1024 * 1024;

const noBytes = Buffer.alloc(0);

/** For every route registered in `app` from now on. */
export function readJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (request, payload, done) => {
    // Do not read the body of an unknown path.
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
      // The boundary differs each time a form is sent, its digest does not.
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
  if (scan.longIntegers.length === 0 || !isJsonObject(value)) return { value, exact: undefined };
  const exact = parseExactly(bytes, scan) as Record<string, unknown> | undefined;
  const seed = digitsOf(exact?.["seed"]);
  if (seed !== undefined) Object.assign(value, { seed: seedToValidate(seed) });
  return { value, exact };
}

function parsed(bytes: Buffer, scan: JsonScan): unknown {
  try {
    return parseScanned(bytes, scan);
  } catch (error) {
    throw malformedBody(error);
  }
}
