import { conflict, invalid, rateLimited, type ServiceError, tooLarge, upstreamFailed } from "../service-error.ts";

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
  diverged: () =>
    upstreamFailed(
      "stream_diverged",
      "The stream broke, and its repetition generated another text. Only requests that always give the same text, as with " +
        "`temperature: 0`, survive the loss of a model server. Send it again with a new `Idempotency-Key`.",
    ),
  left: () =>
    conflict(
      "stream_left",
      "No client was connected to the stream for a minute, so it was ended. Your usage shows its cost; use a new key to run it again.",
    ),
  too_long: () =>
    tooLarge(
      "stream_too_long",
      "The stream is above 16 MiB, or the account's resumable streams of this hour fill their space. Ask for fewer tokens, or leave " +
        "out `X-Stoker-Resumable`.",
    ),
  broken: () => upstreamFailed("stream_broken", "The stream broke too often. Your usage shows its cost."),
};

/** The error of a stored failure. */
export const failureError = (failure: string): ServiceError =>
  (Object.hasOwn(failures, failure) ? failures[failure as StreamFailure] : failures.broken)();
