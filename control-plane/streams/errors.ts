import {
  conflict,
  invalid,
  notFound,
  rateLimited,
  type ServiceError,
  tooLarge,
  upstreamFailed,
} from "../service-error.ts";

export const streamKeyMissing = () =>
  invalid("stream_key_missing", "A resumable stream needs an `Idempotency-Key`, and the same one to continue.", {
    param: "idempotency-key",
    in: "header",
  });

export const lastEventInvalid = () =>
  invalid("last_event_invalid", "`Last-Event-ID` must be the id of an event of this stream: a whole number.", {
    param: "last-event-id",
    in: "header",
  });

export const notResumable = () =>
  invalid(
    "not_resumable",
    "Only streams of chats, text completions, Responses without `store`, and Messages are resumable.",
    { param: "x-stoker-resumable", in: "header" },
  );

export const streamGone = () =>
  notFound(
    "stream_gone",
    "The stream is no longer stored. Send the request with a new `Idempotency-Key`, without `Last-Event-ID`.",
  );

export const streamsFull = () =>
  rateLimited(
    "resumable_streams_full",
    "The account has 100 clients of resumable streams at this server, or its streams of this hour fill their space. Try again later, or " +
      "leave out `X-Stoker-Resumable`.",
    { retryAfterSeconds: 600 },
  );

/** Why a stream ended without its last event. It cannot be continued. */
export type StreamFailure = keyof typeof failures;

const failures = {
  sampled: () =>
    upstreamFailed(
      "stream_not_repeatable",
      "The stream lost its model server. Only requests with `temperature: 0` are repeated by another one, because others would " +
        "generate a different text. Your usage shows its cost; use a new `Idempotency-Key` to send it again.",
    ),
  diverged: () =>
    upstreamFailed(
      "stream_diverged",
      "The stream lost its model server, and the repetition generated a different text. Send the request again with a new " +
        "`Idempotency-Key`.",
    ),
  left: () =>
    conflict(
      "stream_left",
      "No client was connected to the stream for a minute, so it was ended. Your usage shows its cost; use a new key to run it again.",
    ),
  too_long: () =>
    tooLarge(
      "stream_too_long",
      "A resumable stream may have at most 16 MiB. Ask for fewer tokens, or leave out `X-Stoker-Resumable`.",
    ),
  broken: () => upstreamFailed("stream_broken", "The stream broke too often. Your usage shows its cost."),
};

/** The error of a stored failure. */
export const failureError = (failure: string): ServiceError =>
  (Object.hasOwn(failures, failure) ? failures[failure as StreamFailure] : failures.broken)();
