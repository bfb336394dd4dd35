// Client of the HTTP API with the key of the first account.
import { readFileSync } from "node:fs";
import { Agent, fetch, type RequestInit, type Response } from "undici";

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: fields are checked where they are used
  readonly body: any;
}

export type Api = ReturnType<typeof openApi>;

const limitMs = 20_000;

/** Returns every response, including errors. Throws if the server is unreachable. */
export function openApi(own: OwnApi, baseUrl: string, keyFile: string, signal: AbortSignal) {
  return {
    baseUrl,
    async call(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: unknown): Promise<Answer> {
      const response = await own.fetch(baseUrl + path, {
        method,
        headers: {
          authorization: `Bearer ${readFileSync(keyFile, "utf8").trim()}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
      });
      const text = await response.text();
      return { status: response.status, body: parse(text) };
    },
  };
}

/** Error message of a response in any of the API's formats. */
export function refusal(answer: Answer): string {
  const { body } = answer;
  const detail = Array.isArray(body?.detail) ? body.detail[0] : undefined;
  const text = detail
    ? `${detail.loc?.join(".")}: ${detail.msg}`
    : (body?.error?.message ?? body?.error ?? body?.detail?.message ?? body?.detail);
  return typeof text === "string" ? text : `status ${answer.status}`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export interface OwnApi {
  readonly scheme: "http" | "https";
  fetch(url: string, init: RequestInit): Promise<Response>;
}

/** `certFile`: STOKER_TLS_CERT. */
export function ownApi(certFile: string | undefined): OwnApi {
  if (!certFile) return { scheme: "http", fetch };
  return {
    scheme: "https",
    async fetch(url, init) {
      // Trusts exactly this certificate for any name, because it rarely contains this machine's address. Read each time, because
      // it may be renewed.
      const connect = {
        ca: readFileSync(certFile),
        allowPartialTrustChain: true,
        checkServerIdentity: () => undefined,
      };
      const dispatcher = new Agent({ connect });
      const response = await fetch(url, { ...init, dispatcher });
      // Closes after the body is read.
      void dispatcher.close().catch(() => {});
      return response;
    },
  };
}
