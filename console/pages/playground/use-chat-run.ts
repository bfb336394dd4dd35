// One streamed answer at a time.
import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError } from "../../api/client.ts";
import { useApi } from "../../api/context.ts";
import { type Answer, type ChatRequest, noAnswer, streamChat } from "../../domain/chat.ts";
import { forgetTokens, inferenceToken } from "../../domain/inference-token.ts";

export interface Outcome {
  readonly answer: Answer;
  readonly error?: unknown;
  /** It was stopped or broke after it had begun. */
  readonly isPartial: boolean;
}

export interface ChatRun {
  /** Received part of the current response. Undefined: no request is running. */
  readonly live: Answer | undefined;
  /** Resolves at the end, however it ended. `key`: sent instead of a token that a key of the account signs. */
  readonly start: (request: ChatRequest, key?: string) => Promise<Outcome>;
  readonly stop: () => void;
}

export function useChatRun(): ChatRun {
  const api = useApi();
  const [live, setLive] = useState<Answer | undefined>(undefined);
  const stopper = useRef<AbortController>(undefined);
  const frame = useRef(0);
  useEffect(
    () => () => {
      stopper.current?.abort();
      cancelAnimationFrame(frame.current);
    },
    [],
  );
  const isRunning = live !== undefined;
  // Closing or reloading the page would lose the answer, so the browser asks.
  useEffect(() => {
    if (!isRunning) return undefined;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [isRunning]);
  const start = useCallback(
    async (request: ChatRequest, key?: string): Promise<Outcome> => {
      const stop = new AbortController();
      stopper.current?.abort();
      stopper.current = stop;
      let answer = noAnswer;
      setLive(answer);
      // Fast models send more parts than a screen shows.
      const onChange = (next: Answer) => {
        answer = next;
        cancelAnimationFrame(frame.current);
        frame.current = requestAnimationFrame(() => !stop.signal.aborted && setLive(answer));
      };
      let error: unknown;
      try {
        await streamChat(key ?? (await inferenceToken(api, request.model)), request, stop.signal, onChange);
      } catch (caught) {
        // After Stop, what arrived is the answer.
        if (!stop.signal.aborted) error = caught;
        if (caught instanceof ApiError && caught.status === 401) forgetTokens(api);
      }
      if (stopper.current === stop) {
        cancelAnimationFrame(frame.current);
        setLive(undefined);
      }
      return {
        answer,
        isPartial: error !== undefined || stop.signal.aborted,
        ...(error === undefined ? {} : { error }),
      };
    },
    [api],
  );
  const stop = useCallback(() => stopper.current?.abort(), []);
  return { live, start, stop };
}
