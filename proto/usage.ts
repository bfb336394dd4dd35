// The usage record: one per request and attempt, written by the agent, settled by the control plane.

/** Where the token counts came from: the engine's own figures, frames counted at the agent, or an estimate from bytes. */
export type UsageSource = "engine" | "counted" | "estimated";
/** `lost`: the agent restarted and has a start row but no end; the gateway's delivered count decides the charge. */
export type EndReason = "stop" | "client_gone" | "engine_error" | "engine_timeout" | "refused" | "drained" | "lost";

export interface UsageFigures {
  /** Prompt tokens, cached ones included. */
  readonly input: number;
  readonly cachedInput: number;
  /** Generated tokens (reasoning included); what is billed. */
  readonly output: number;
  readonly reasoning: number;
  readonly source: UsageSource;
  readonly endReason: EndReason;
}

/** Header of a complete answer, trailer of a stream: the agent's figures on their way to the gateway. */
export const usageHeader = "x-stoker-usage";
/** Header of an answer that never reached the engine: the gateway may try elsewhere. */
export const refusalHeader = "x-stoker-refusal";
/** `busy`: queue full or its deadline passed; `draining`, `not_ready`, `unknown_instance`: go elsewhere; `spool`: cannot write usage; `ticket`: refused ticket. */
export type Refusal = "busy" | "draining" | "not_ready" | "unknown_instance" | "spool" | "ticket";

export function encodeUsage(u: UsageFigures): string {
  return `${u.input};${u.cachedInput};${u.output};${u.reasoning};${u.source};${u.endReason}`;
}

/** Undefined when the text is not usage: the hold then waits for the record. */
export function decodeUsage(text: string): UsageFigures | undefined {
  const [input, cachedInput, output, reasoning, source, endReason] = text.split(";");
  const figures = [input, cachedInput, output, reasoning].map(Number);
  if (!source || !endReason || figures.some((n) => !Number.isSafeInteger(n) || n < 0)) return undefined;
  return {
    input: figures[0] as number,
    cachedInput: figures[1] as number,
    output: figures[2] as number,
    reasoning: figures[3] as number,
    source: source as UsageSource,
    endReason: endReason as EndReason,
  };
}
