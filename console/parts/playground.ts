import { useRef, useState } from "preact/hooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { type Api, ApiError, useApi } from "../api.ts";
import { type ChatRequest, type Message, streamChat, type Usage } from "../chat.ts";
import { usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { Field, type Fields, Form, Refused } from "./controls.ts";

interface Options {
  readonly max_tokens: number;
  readonly temperature: number;
}

interface PlaygroundProps {
  readonly request: ChatRequest;
  /** Receives the messages of each sent request. */
  readonly onSend: (messages: readonly Message[]) => void;
  readonly onOptions: (options: Options) => void;
}

interface Answer {
  readonly text: string;
  readonly requestId: string;
  readonly firstMs: number | undefined;
  readonly usage: Usage | undefined;
  readonly error: unknown;
}

const nothing: Answer = { text: "", requestId: "", firstMs: undefined, usage: undefined, error: undefined };

export function Playground({ request, onSend, onOptions }: PlaygroundProps): View {
  const api = useApi();
  const [talk, setTalk] = useState<readonly Message[]>([]);
  const [answer, setAnswer] = useState<Answer>(nothing);
  const [running, setRunning] = useState<AbortController | undefined>(undefined);
  const change = (part: Partial<Answer>) => setAnswer((before) => ({ ...before, ...part }));
  const text = useRef("");

  const send = async ({ prompt = "" }: Fields) => {
    if (running) return;
    const messages: Message[] = [...talk, { role: "user", content: prompt }];
    onSend(messages);
    setTalk(messages);
    setAnswer(nothing);
    text.current = "";
    const stop = new AbortController();
    setRunning(stop);
    const startedMs = performance.now();
    try {
      await streamChat(await tokenFor(api, request.model), { ...request, messages }, stop.signal, {
        onStart: (requestId) => change({ requestId }),
        onText: (piece) => {
          const isFirst = text.current === "";
          text.current += piece;
          change({ text: text.current, ...(isFirst ? { firstMs: performance.now() - startedMs } : {}) });
        },
        onUsage: (usage) => change({ usage }),
      });
    } catch (error) {
      // After Stop, the received text is the answer.
      if (!stop.signal.aborted) change({ error });
    } finally {
      setRunning(undefined);
    }
    if (text.current !== "") {
      setTalk([...messages, { role: "assistant", content: text.current }]);
      change({ text: "" });
    }
  };

  return html`<div class="playground">
    <ol class="talk" aria-live="polite">${talk.map(
      ({ role, content }) => html`<li class=${role}><b>${role}</b><p>${content}</p></li>`,
    )}${running && html`<li class="assistant"><b>assistant</b><p>${answer.text || "…"}</p></li>`}</ol>
    <${Figures} answer=${answer} />
    <${Refused} error=${answer.error} />
    <${Form} act="Send" onSend=${send}>
      <label>Message<textarea name="prompt" rows="3" required>${request.messages.at(-1)?.content}</textarea></label>
      <details><summary>Options</summary>
        <${Field} label="Maximum tokens" name="max_tokens" type="number" min="1" max="100000" value=${request.max_tokens}
          onInput=${(event: { currentTarget: HTMLInputElement }) =>
            onOptions({ max_tokens: event.currentTarget.valueAsNumber || 1, temperature: request.temperature })} />
        <${Field} label="Temperature" name="temperature" type="number" min="0" max="2" step="0.1" value=${request.temperature}
          onInput=${(event: { currentTarget: HTMLInputElement }) =>
            onOptions({ max_tokens: request.max_tokens, temperature: event.currentTarget.valueAsNumber || 0 })} />
      </details>
    <//>
    ${running && html`<button type="button" class="second" onClick=${() => running.abort()}>Stop</button>`}
    ${!running && talk.length > 0 && html`<button type="button" class="second" onClick=${() => setTalk([])}>New chat</button>`}
  </div>`;
}

function Figures({ answer: { usage, firstMs, requestId } }: { answer: Answer }): View {
  const parts = [
    firstMs !== undefined && `first token after ${Math.round(firstMs)} ms`,
    usage && `${usage.prompt_tokens} tokens in, ${usage.completion_tokens} out`,
    usage?.estimated_cost !== undefined && usd(usage.estimated_cost),
    requestId && `request ${requestId}`,
  ].filter((part) => typeof part === "string" && part !== "");
  return parts.length > 0 && html`<p class="quiet figures">${parts.join(" · ")}</p>`;
}

type Key = Responses["GET /v1/api-tokens"][number];

/** Creates a token for one model, valid for 15 minutes. Throws ApiError. */
async function tokenFor(api: Api, model: string): Promise<string> {
  const [key] = await api.call<readonly Key[]>("GET", "/v1/api-tokens");
  if (!key) throw new ApiError("The playground needs an API key to sign requests. Create one under Keys.", 0);
  const request = { api_key_name: key.name, models: [model], expires_delta: 900 };
  return (await api.call<{ readonly token: string }>("POST", "/v1/scoped-jwt", request)).token;
}
