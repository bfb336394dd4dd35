// The signature of a thinking block contains its text, sealed for the account. A client may return the block without its text.
import type { ReasoningSeal } from "../../../accounts/reasoning-seals.ts";
import { badRequest } from "../../../service-error.ts";
import type { Block } from "./message-request-schemas.ts";

/** Distinguishes our signatures from those of other servers. */
const ours = "stoker1.";

type ThinkingBlock = Extract<Block, { readonly type: "thinking" | "redacted_thinking" }>;

/** "" without a seal: the reply then has no signature, and its thinking is not returned to the model. */
export const signatureOf = (thinking: string, seal: ReasoningSeal | undefined): string =>
  seal ? ours + seal.seal(thinking) : "";

/**
 * Returns the text of a thinking block. Undefined: another server signed it, or none did, so that it is not of this model. `at`:
 * position of the block. Throws for a block that was changed.
 */
export function openThinking(block: ThinkingBlock, seal: ReasoningSeal | undefined, at: string): string | undefined {
  const [field, signature] = block.type === "thinking" ? ["signature", block.signature] : ["data", block.data];
  if (!signature?.startsWith(ours)) return undefined;
  const text = seal?.open(signature.slice(ours.length));
  const shown = block.type === "thinking" ? block.thinking : "";
  if (text === undefined || (shown !== "" && shown !== text))
    throw badRequest("invalid_signature", `${at}: Invalid ${field} in ${block.type} block. Send the block unchanged.`, {
      param: `${at}.${field}`,
    });
  return text;
}
