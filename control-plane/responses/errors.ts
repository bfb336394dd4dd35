import { badRequest, conflict, notFound, rateLimited, tooLarge } from "../service-error.ts";

const shown = (text: string) => JSON.stringify(text.slice(0, 128));
const mib = (bytes: number) => `${bytes / 1024 ** 2} MiB`;

export const responseNotFound = (id: string) =>
  notFound("response_not_found", `Response with id ${shown(id)} not found.`);

/** Unknown, deleted, expired, or another account's. */
export const previousNotFound = (id: string) =>
  badRequest("previous_response_not_found", `Previous response with id ${shown(id)} not found.`, {
    param: "previous_response_id",
  });

export const previousUnfinished = (id: string) =>
  badRequest("previous_response_unfinished", `Previous response with id ${shown(id)} has not finished.`, {
    param: "previous_response_id",
  });

export const conversationTooLong = (maxResponses: number, maxBytes: number) =>
  badRequest(
    "conversation_too_long",
    `A conversation must have at most ${maxResponses} stored responses and ${mib(maxBytes)}. Start a new one.`,
    { param: "previous_response_id" },
  );

export const referenceNotFound = (id: string, param: string) =>
  badRequest("item_reference_not_found", `Item with id ${shown(id)} not found. Items are kept only with \`store\`.`, {
    param,
  });

export const notBackground = (id: string) =>
  badRequest("response_not_cancellable", `Response with id ${shown(id)} does not run in the background.`);

export const itemNotFound = (id: string) =>
  badRequest("item_not_found", `Item with id ${shown(id)} not found in this response.`, {
    param: "after",
    in: "query",
  });

/** Stored responses use all the space of the account. */
export const responsesFull = (maxBytes: number) =>
  conflict(
    "stored_responses_full",
    `The stored responses of the account use all of their ${mib(maxBytes)}. Delete some of them, or omit \`store\`.`,
    { param: "store" },
  );

export const responseTooLarge = (maxBytes: number) =>
  tooLarge("response_too_large", `A stored response must be at most ${mib(maxBytes)}. Omit \`store\`.`, {
    param: "store",
  });

export const responseQueueFull = (max: number) =>
  rateLimited("response_queue_full", `At most ${max} responses may wait in the background. Try again later.`, {
    param: "background",
    retryAfterSeconds: 30,
  });
