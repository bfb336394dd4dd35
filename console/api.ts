// The one way to ask the server: by the session cookie, with the session's token on writes.
import { createContext } from "preact";
import { useContext } from "preact/hooks";

const limitMs = 30_000;
/** As long as the server gives a body to arrive. */
const uploadMs = 900_000;
/** Before a question that reached nobody is asked a second time. */
const secondTryMs = 500;

export class ApiError extends Error {
  /** 0: there was no answer. */
  readonly status: number;
  readonly code: string;
  /** Empty where there was no answer. */
  readonly requestId: string;

  constructor(message: string, status: number, code = "", requestId = "") {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
  }
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface Api {
  /** `body`: a form as it is, anything else as JSON. Throws ApiError. */
  call<Answer>(
    method: Method,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Answer>;
  /** Throws ApiError, with status 401 where nobody is signed in. */
  openSession(): Promise<void>;
}

interface SessionBody {
  readonly csrf_token: string;
}

/** `onSignedOut`: the session has ended elsewhere, or by its age. */
export function createApi(onSignedOut: () => void): Api {
  let csrfToken = "";

  const send = async <Answer>(
    method: Method,
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>>,
  ): Promise<Answer> => {
    const isForm = body instanceof FormData;
    const mostMs = isForm ? uploadMs : limitMs;
    const signal = AbortSignal.timeout(mostMs);
    const ask = () =>
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
    const answer = await ask()
      .catch(async (error: unknown) => {
        // A browser cuts what is under way when the networks of its machine change. A write may have arrived all the same.
        if (method !== "GET" || signal.aborted) throw error;
        await new Promise((resolve) => setTimeout(resolve, secondTryMs));
        return ask();
      })
      .catch((error: unknown) => {
        throw unanswered(error, mostMs);
      });
    if (!answer.ok) throw await refusalOf(answer);
    const value = (await answer.json()) as Answer;
    // Sign-in and sign-up answer with the token of the session they began.
    const begun = (value as Partial<SessionBody> | null)?.csrf_token;
    if (path.startsWith("/v1/auth/") && begun) csrfToken = begun;
    return value;
  };
  const openSession = async (): Promise<void> => {
    await send("GET", "/v1/auth/session", undefined, {});
  };

  return {
    openSession,
    async call(method, path, body, headers = {}) {
      try {
        return await send(method, path, body, headers);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status === 401 && !path.startsWith("/v1/auth/")) onSignedOut();
        // Another tab has signed in anew: the cookie is that session's, so its token is asked for, once.
        if (error.code !== "csrf_refused") throw error;
        await openSession();
        return send(method, path, body, headers);
      }
    },
  };
}

function unanswered(error: unknown, mostMs: number): ApiError {
  const isTimeout = error instanceof DOMException && error.name === "TimeoutError";
  const what = isTimeout ? `The server did not answer within ${mostMs / 1000} s.` : "The server was not reached.";
  return new ApiError(`${what} Is this machine online, and the server running? Try again.`, 0);
}

/** What an answer says of why it was refused, in any of the interface's dialects. */
export async function refusalOf(answer: Response): Promise<ApiError> {
  const requestId = answer.headers.get("x-request-id") ?? "";
  const fallback = `The server answered with status ${answer.status}.`;
  const body: unknown = await answer.json().catch(() => undefined);
  const { error, code, detail } = (body ?? {}) as {
    error?: string | { message?: string; code?: string };
    code?: string;
    detail?: { loc?: (string | number)[]; msg?: string }[];
  };
  const fields = Array.isArray(detail) ? detail.map(({ loc = [], msg }) => `${loc.slice(1).join(".")}: ${msg}`) : [];
  const said = typeof error === "object" ? error.message : error;
  const message = fields.length > 0 ? fields.join("; ") : (said ?? fallback);
  return new ApiError(message, answer.status, code ?? (typeof error === "object" ? error.code : "") ?? "", requestId);
}

export const ApiContext = createContext<Api | undefined>(undefined);

export function useApi(): Api {
  const api = useContext(ApiContext);
  if (!api) throw new Error("a page stands outside the console");
  return api;
}
