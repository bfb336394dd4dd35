// What is kept of a request, and what it means to whoever asks why.

export interface LoggedRequest {
  readonly request_id: string;
  readonly attempt: number;
  /** false: a later attempt counts in its place. */
  readonly counts: boolean;
  readonly model: string;
  readonly token_id: string;
  readonly end_reason: string;
  readonly created_at: number;
  readonly ended_at: number;
  readonly queue_ms: number;
  readonly first_byte_ms: number;
  readonly total_ms: number;
  readonly input_tokens: number;
  readonly cached_input_tokens: number;
  readonly output_tokens: number;
  readonly reasoning_tokens: number;
  /** Cents. */
  readonly cost: number;
  /** The operator is told these too. */
  readonly account?: string;
  readonly deploy_id?: string;
  readonly instance_id?: string;
}

interface Ending {
  readonly is: string;
  readonly isFailure: boolean;
  /** Why, and what to do. */
  readonly means: string;
}

const endings: Readonly<Record<string, Ending>> = {
  stop: { is: "answered", isFailure: false, means: "It was answered to its end." },
  client_gone: {
    is: "client gone",
    isFailure: false,
    means:
      "Who asked closed the connection before the end; what was made until then is billed. If that was not meant, raise the time limit of the client.",
  },
  refused: {
    is: "refused",
    isFailure: true,
    means: "The model server refused the request itself: its answer says which field is wrong. Nothing is billed.",
  },
  engine_error: {
    is: "failed",
    isFailure: true,
    means:
      "The model server failed while it worked. Ask again; if it fails again, the log of the deployment says more to its owner.",
  },
  engine_timeout: {
    is: "timed out",
    isFailure: true,
    means: "The model server stopped answering and was given up. Ask again, with fewer tokens if it was a long answer.",
  },
  drained: {
    is: "cut by a drain",
    isFailure: true,
    means: "Its host was emptied and the request ran longer than the deadline of that. Ask again.",
  },
  lost: {
    is: "host lost",
    isFailure: true,
    means: "The host was not heard of again. What had been delivered is billed, and nothing else. Ask again.",
  },
};

export const endingOf = (reason: string): Ending => endings[reason] ?? { is: reason, isFailure: true, means: reason };

/** Where its time went, in ms: waiting for a place, until the first byte, and from there to the end. */
export function phasesOf({ queue_ms: queue, first_byte_ms: first, total_ms: total }: LoggedRequest): {
  readonly queue: number;
  readonly prefill: number;
  readonly decode: number;
} {
  const begun = first > 0 ? first : total;
  return { queue: Math.min(queue, begun), prefill: Math.max(0, begun - queue), decode: Math.max(0, total - begun) };
}
