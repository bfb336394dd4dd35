// Messages between the replicas of one installation. They are hints: a lost one costs precision or a second, never a fact.

/** `change`: the feed grew; `rates`: one replica's counts. */
export const topics = ["change", "rates"] as const;
export type Topic = (typeof topics)[number];

export interface Signals {
  /** To every other replica that listens now. Never waits and never throws; lost when they cannot be reached. */
  publish(topic: Topic, message: string): void;
  /** What others say, in the order in which each of them said it; one's own words do not come back. */
  on(topic: Topic, handler: (message: string, from: string) => void): void;
  readonly isConnected: boolean;
  /** Neither hears nor says anything afterwards. */
  close(): Promise<void>;
}
