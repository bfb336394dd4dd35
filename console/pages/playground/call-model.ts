// A request of the playground that is not a chat.
import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError, refusalOf } from "../../api/client.ts";
import { useApi } from "../../api/context.ts";
import { forgetTokens, inferenceToken } from "../../domain/inference-token.ts";

export interface Done<Result> {
  readonly result: Result;
  readonly requestId: string;
  readonly totalMs: number;
}

export interface Call<Result> {
  readonly done: Done<Result> | undefined;
  readonly error: unknown;
  readonly isBusy: boolean;
  /** `read` turns the response into the result. */
  readonly start: (model: string, path: string, body: object, read: (response: Response) => Promise<Result>) => void;
  readonly stop: () => void;
}

/** A model that has to start first takes minutes. */
const maxMs = 600_000;

export function useCall<Result>(): Call<Result> {
  const api = useApi();
  const [done, setDone] = useState<Done<Result> | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [isBusy, setBusy] = useState(false);
  const stopper = useRef<AbortController>(undefined);
  useEffect(() => () => stopper.current?.abort(), []);
  const start: Call<Result>["start"] = async (model, path, body, read) => {
    if (isBusy) return;
    const stop = new AbortController();
    stopper.current = stop;
    setBusy(true);
    setError(undefined);
    try {
      const token = await inferenceToken(api, model);
      const startedMs = performance.now();
      const isForm = body instanceof FormData;
      const response = await fetch(path, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, ...(isForm ? {} : { "content-type": "application/json" }) },
        body: isForm ? body : JSON.stringify(body),
        signal: AbortSignal.any([stop.signal, AbortSignal.timeout(maxMs)]),
      });
      if (!response.ok) throw await refusalOf(response);
      const result = await read(response);
      const requestId = response.headers.get("x-request-id") ?? "";
      setDone({ result, requestId, totalMs: performance.now() - startedMs });
    } catch (caught) {
      if (caught instanceof ApiError && caught.status === 401) forgetTokens(api);
      if (!stop.signal.aborted) setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const stop = useCallback(() => stopper.current?.abort(), []);
  return { done, error, isBusy, start: (...all) => void start(...all), stop };
}
