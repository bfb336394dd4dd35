// `truncation: auto`: drops the oldest turns of a conversation that does not fit the model's context. The engine says whether it
// fits, because only it counts exactly; a refused request costs nothing.
import { overflowCode } from "../../../inference/engine-error.ts";
import { ServiceError } from "../../../service-error.ts";
import type { ResponseItem } from "./responses-schemas.ts";

/** Shares of the conversation's text that one try after the other keeps; the last turn always stays. */
const keptShares = [0.75, 0.5, 0.33, 0.2, 0.1, 0];

export const isOverflow = (error: unknown): boolean => error instanceof ServiceError && error.code === overflowCode;

/** Shorter and shorter conversations, each of at least one turn. Leading instructions stay. */
export function* shorterConversations(items: readonly ResponseItem[]): Generator<readonly ResponseItem[]> {
  const headCount = items.findIndex(({ role }) => role !== "system" && role !== "developer");
  const head = items.slice(0, Math.max(0, headCount));
  const turns = turnsOf(items.slice(head.length));
  const sizes = turns.map((turn) => JSON.stringify(turn).length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  let keptCount = turns.length;
  for (const share of keptShares) {
    let size = 0;
    let count = 0;
    while (count < turns.length && size + (sizes.at(-1 - count) as number) <= total * share) {
      size += sizes.at(-1 - count) as number;
      count += 1;
    }
    if (Math.max(1, count) >= keptCount) continue;
    keptCount = Math.max(1, count);
    yield [...head, ...turns.slice(-keptCount).flat()];
  }
}

/** A turn begins with a message of the user: calls stay with their outputs. */
function turnsOf(items: readonly ResponseItem[]): ResponseItem[][] {
  const turns: ResponseItem[][] = [];
  for (const item of items) {
    const turn = turns.at(-1);
    if (!turn || item.role === "user") turns.push([item]);
    else turn.push(item);
  }
  return turns;
}
