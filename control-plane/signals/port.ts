// Messages between the replicas of one installation. They are hints: a lost message costs precision or a second, never
// correctness.

/** `change`: the feed grew; `rates`: one replica's counts; `prompts`: which instances evaluate which prompts. */
export const topics = ["change", "rates", "prompts"] as const;
export type Topic = (typeof topics)[number];

export interface Signals {
  /** Sends to every other connected replica. Never waits and never throws; the message is lost when they are unreachable. */
  publish(topic: Topic, message: string): void;
  /**
   * Receives the others' messages, in the order in which each sent them; a replica's own messages are not delivered to it.
   */
  on(topic: Topic, handler: (message: string, from: string) => void): void;
  readonly isConnected: boolean;
  /** Nothing is sent or received afterwards. */
  close(): Promise<void>;
}
