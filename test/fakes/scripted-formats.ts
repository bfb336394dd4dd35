// Texts that clients parse out of plain replies.
import type { Turn } from "./scripted-chat.ts";

/** DSPy's format of a reply: its prompt names the field `answer`. */
export function dspyReply(turns: readonly Turn[], answer: string): string | undefined {
  const isAsked = turns.some(({ text }) => text.includes("[[ ## answer ## ]]"));
  return isAsked ? `[[ ## answer ## ]]\n${answer}\n\n[[ ## completed ## ]]` : undefined;
}
