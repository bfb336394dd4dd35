// Asks the control plane for hosts that may have weights. Without a reply in time, or without a session, there are none, and
// the weights are downloaded from the hub.
import { randomBytes } from "node:crypto";
import type { AgentMessage } from "../../proto/gen/stoker/fleet/v1/AgentMessage.ts";
import type { Neighbour__Output } from "../../proto/gen/stoker/fleet/v1/Neighbour.ts";
import type { Neighbours__Output } from "../../proto/gen/stoker/fleet/v1/Neighbours.ts";

export type NeighbourQuestions = ReturnType<typeof createNeighbourQuestions>;

const answerMs = 2_000;

export function createNeighbourQuestions() {
  const open = new Map<string, (found: readonly Neighbour__Output[]) => void>();
  let send: ((message: AgentMessage) => void) | undefined;

  return {
    ask(repo: string, signal: AbortSignal): Promise<readonly Neighbour__Output[]> {
      const say = send;
      if (!say || signal.aborted) return Promise.resolve([]);
      const question = randomBytes(8).toString("hex");
      return new Promise((resolve) => {
        const end = (found: readonly Neighbour__Output[]) => {
          clearTimeout(timer);
          signal.removeEventListener("abort", none);
          open.delete(question);
          resolve(found);
        };
        const none = () => end([]);
        const timer = setTimeout(none, answerMs);
        signal.addEventListener("abort", none, { once: true });
        open.set(question, end);
        say({ body: "weightsWanted", weightsWanted: { question, repo } });
      });
    },
    answered: (answer: Neighbours__Output) =>
      open.get(answer.question)?.(answer.neighbours.filter(({ origin }) => /^https?:\/\/[^/]+$/.test(origin))),
    over(next: (message: AgentMessage) => void, signal: AbortSignal) {
      send = next;
      signal.addEventListener("abort", () => {
        if (send === next) send = undefined;
      });
    },
  };
}
