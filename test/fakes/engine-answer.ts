// The OpenAI-shaped texts of the fake engine. Token counts are a function of the request: words in, `tokens` out.
import type { EngineBehaviour, EngineRequest } from "./engine-behaviour.ts";

export interface Answer {
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly choices: number;
  /** Complete answer. */
  readonly whole: () => string;
  /** SSE frames of the stream; `content` frames carry one token each. */
  readonly frames: () => readonly { readonly text: string; readonly content: boolean }[];
}

/** Words of the prompt or of every message: the engine's deterministic tokeniser. */
export function promptTokensOf(body: Readonly<Record<string, unknown>>): number {
  const messages = Array.isArray(body["messages"]) ? body["messages"] : [];
  const texts = [body["prompt"], ...messages.map((m: { content?: unknown }) => m.content)].filter(
    (t): t is string => typeof t === "string",
  );
  return texts.join(" ").split(/\s+/).filter(Boolean).length;
}

export function answerTo(request: EngineRequest, b: EngineBehaviour, serial: number): Answer {
  const { body } = request;
  const chat = request.path.endsWith("/chat/completions");
  const max = Number(body["max_tokens"] ?? body["max_completion_tokens"] ?? b.tokens);
  const each = Math.min(b.tokens, max);
  const choices = Number(body["n"] ?? 1);
  const promptTokens = b.promptTokens ?? promptTokensOf(body);
  const outputTokens = each * choices;
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: outputTokens,
    total_tokens: promptTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: Math.min(b.cachedTokens, promptTokens) },
  };
  const finish = each < b.tokens ? "length" : "stop";
  const json = (value: unknown) => {
    const text = JSON.stringify(value);
    return b.spaced ? text.replaceAll('":', '": ').replaceAll(',"', ', "') : text;
  };
  const head = {
    id: `${chat ? "chatcmpl" : "cmpl"}-fake${serial}`,
    created: 1_700_000_000,
    model: body["model"] ?? "m",
  };
  const object = chat ? "chat.completion" : "text_completion";

  const tokenAt = (i: number) => b.token.replaceAll("#", String(i));
  const wholeText = () => Array.from({ length: each }, (_, i) => tokenAt(i)).join("");

  const whole = () =>
    json({
      ...head,
      object,
      choices: Array.from({ length: choices }, (_, index) => ({
        index,
        ...(chat ? { message: { role: "assistant", content: wholeText() } } : { text: wholeText(), logprobs: null }),
        finish_reason: finish,
      })),
      ...(b.usage === "none" ? {} : { usage }),
    });

  const frames = () => {
    const options = (body["stream_options"] ?? {}) as Record<string, unknown>;
    const wanted = options["include_usage"] === true;
    const list: { text: string; content: boolean }[] = [];
    const push = (choicesPart: unknown, extra: object, content: boolean) =>
      list.push({
        text: `data: ${json({ ...head, object: chat ? `${object}.chunk` : object, choices: choicesPart, ...(b.nullUsage ? { usage: null } : {}), ...extra })}\n\n`,
        content,
      });
    const running = (sent: number) =>
      wanted && options["continuous_usage_stats"] === true
        ? { usage: { ...usage, completion_tokens: sent, total_tokens: promptTokens + sent } }
        : {};
    let sent = 0;
    for (let i = 0; i < each; i++)
      for (let index = 0; index < choices; index++) {
        const part = chat
          ? { delta: i === 0 ? { role: "assistant", content: tokenAt(i) } : { content: tokenAt(i) } }
          : { text: tokenAt(i) };
        push([{ index, ...part, finish_reason: null }], running(++sent), true);
      }
    for (let index = 0; index < choices; index++) {
      const last = index === choices - 1;
      const part = chat ? { delta: {} } : { text: "" };
      const own = b.usage === "finish" && last ? { usage } : running(sent);
      push([{ index, ...part, finish_reason: finish }], own, false);
    }
    if (wanted && b.usage === "extra") push([], { usage }, false);
    list.push({ text: "data: [DONE]\n\n", content: false });
    return list;
  };
  return { promptTokens, outputTokens, choices, whole, frames };
}
