// HTTP client of the console: session cookie, plus the CSRF token of the session on writes.

import type { Responses } from "../../proto/gen/responses.ts";

const limitMs = 30_000;
/** The server's own time limit for a request body. */
const uploadMs = 900_000;
/** Delay before a failed GET is retried. */
const retryDelayMs = 500;

export class ApiError extends Error {
  /** 0 if there was no response. */
  readonly status: number;
  readonly code: string;
  /** Empty if there was no response. */
  readonly requestId: string;
  /** Address of the page that explains it; empty if there is none. */
  readonly help: string;

  constructor(message: string, status: number, code = "", requestId = "", help = "") {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.help = help;
  }
}

/** Requests of the signed-in person, whatever account is shown. */
const ofPerson = /^\/v1\/(auth\/|organizations|invitations\/(accept|preview))/;

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface Api {
  /** Sends `body` as a form if it is one, otherwise as JSON. Throws ApiError. */
  call<Answer>(
    method: Method,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Answer>;
  /** Throws ApiError, with status 401 if the user is not signed in. */
  openSession(): Promise<SessionBody>;
}

type SessionBody = Responses["GET /v1/auth/session"];

export interface ApiEvents {
  /** The session ended elsewhere or expired. */
  onSignedOut(): void;
  /** Asks the user to sign in again. False if the user cancels. */
  reauthenticate(method: string, path: string): Promise<boolean>;
  /** The operator now requires a second factor. */
  onMustEnrol(): void;
  /** Account that is shown, if it is not the user's own: an organization of theirs, or one that an operator views. */
  actingAs?(): string | undefined;
}

export function createApi({ onSignedOut, reauthenticate, onMustEnrol, actingAs }: ApiEvents): Api {
  let csrfToken = "";
  // All waiting requests share one dialog.
  let reauthentication: Promise<boolean> | undefined;

  const send = async <Answer>(
    method: Method,
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>>,
  ): Promise<Answer> => {
    const isForm = body instanceof FormData;
    const maxMs = isForm ? uploadMs : limitMs;
    const signal = AbortSignal.timeout(maxMs);
    const request = () =>
      fetch(path, {
        method,
        headers: {
          ...headers,
          ...(body === undefined || isForm ? {} : { "content-type": "application/json" }),
          ...(method === "GET" ? {} : { "x-csrf-token": csrfToken }),
        },
        ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
        signal,
      });
    const answer = await request()
      .catch(async (error: unknown) => {
        // Browsers abort requests when the network changes. Only GET is retried, because a write may have had an effect.
        if (method !== "GET" || signal.aborted) throw error;
        await new Promise((resolve) => setTimeout(resolve, retryDelayMs));
        return request();
      })
      .catch((error: unknown) => {
        throw noResponse(error, maxMs);
      });
    if (!answer.ok) throw await refusalOf(answer);
    const value = (await answer.json()) as Answer;
    // Sign-in and sign-up return the token of the new session.
    const newToken = (value as Partial<SessionBody> | null)?.csrf_token;
    if (path.startsWith("/v1/auth/") && newToken) csrfToken = newToken;
    return value;
  };
  const openSession = () => send<SessionBody>("GET", "/v1/auth/session", undefined, {});

  return {
    openSession,
    async call(method, path, body, given = {}) {
      const other = ofPerson.test(path) ? undefined : actingAs?.();
      // The server refuses writes of operators with this header.
      const headers = other === undefined ? given : { "x-stoker-act-as": other, ...given };
      try {
        return await send(method, path, body, headers);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.code === "invalid_api_key" && !path.startsWith("/v1/auth/")) onSignedOut();
        if (error.code === "second_factor_required") onMustEnrol();
        if (error.code === "reauthentication_required") {
          reauthentication ??= reauthenticate(method, path).finally(() => {
            reauthentication = undefined;
          });
          if (!(await reauthentication)) throw error;
          return send(method, path, body, headers);
        }
        // Another tab signed in again and replaced the cookie: read the new session's token and retry once.
        if (error.code !== "csrf_refused") throw error;
        await openSession();
        return send(method, path, body, headers);
      }
    },
  };
}

function noResponse(error: unknown, maxMs: number): ApiError {
  const isTimeout = error instanceof DOMException && error.name === "TimeoutError";
  const problem = isTimeout ? `No response from the server within ${maxMs / 1000} s.` : "Could not reach the server.";
  return new ApiError(`${problem} Check your connection, then try again.`, 0);
}

interface FieldDetail {
  readonly loc?: readonly (string | number)[];
  readonly msg?: string;
}

/** Prefixes the field name unless the message starts with it. */
function fieldText({ loc = [], msg = "" }: FieldDetail): string {
  const field = loc.slice(1).join(".");
  return field === "" || msg.startsWith(`The ${field} `) ? msg : `${field}: ${msg}`;
}

/** Error of a response in any of the API's formats. */
export async function refusalOf(answer: Response): Promise<ApiError> {
  const requestId = answer.headers.get("x-request-id") ?? "";
  const fallback = `The server returned status ${answer.status}.`;
  const body: unknown = await answer.json().catch(() => undefined);
  const { error, code, detail } = (body ?? {}) as {
    error?: string | { message?: string; code?: string };
    code?: string;
    detail?: FieldDetail[];
  };
  const fields = Array.isArray(detail) ? detail.map(fieldText) : [];
  const text = typeof error === "object" ? error.message : error;
  const message = fields.length > 0 ? fields.join("; ") : (text ?? fallback);
  const help = /<(\/[^/>][^>]*)>; rel="help"/.exec(answer.headers.get("link") ?? "")?.[1];
  const errorCode = code ?? (typeof error === "object" ? error.code : "") ?? "";
  return new ApiError(message, answer.status, errorCode, requestId, help);
}
