// Models as clients of Anthropic's Messages API list them.
import type { IncomingHttpHeaders } from "node:http";
import type { ServedModel } from "../../catalog/served-model.ts";
import { invalid } from "../../service-error.ts";
import type { Dialect } from "../errors/error-body.ts";
import type { MessagesModel, MessagesModelList, ModelPage } from "./models-schemas.ts";

/** Those clients send this header with every request. */
export const messagesDialect = (headers: IncomingHttpHeaders): Dialect | undefined =>
  headers["anthropic-version"] === undefined ? undefined : "messages";

const defaultLimit = 20;

/** Throws for an id that is not in the list. */
export function renderMessagesModels(models: readonly ServedModel[], page: ModelPage): MessagesModelList {
  const { limit = defaultLimit, after_id: after, before_id: before } = page;
  const from = after === undefined ? 0 : placeOf(models, "after_id", after) + 1;
  const end = before === undefined ? models.length : placeOf(models, "before_id", before);
  // The page before an id ends there; any other starts where the last one ended.
  const start = before === undefined ? from : Math.max(from, end - limit);
  const shown = models.slice(start, Math.min(end, start + limit));
  return {
    data: shown.map(renderMessagesModel),
    has_more: before === undefined ? start + shown.length < end : start > from,
    first_id: shown[0]?.name ?? null,
    last_id: shown.at(-1)?.name ?? null,
  };
}

export function renderMessagesModel({ name, about, contextLength, createdAtMs }: ServedModel): MessagesModel {
  const deprecatedAtMs = about?.deprecatedAtMs ?? null;
  const context = contextLength > 0 ? contextLength : null;
  return {
    type: "model",
    id: name,
    display_name: name,
    created_at: timeText(createdAtMs),
    max_input_tokens: context,
    max_tokens: context,
    lifecycle: deprecatedAtMs === null ? "active" : "deprecated",
    deprecated_at: deprecatedAtMs === null ? null : timeText(deprecatedAtMs),
    retires_at: about?.sunsetAtMs == null ? null : timeText(about.sunsetAtMs),
    capabilities: null,
    line: null,
  };
}

function placeOf(models: readonly ServedModel[], param: string, id: string): number {
  const place = models.findIndex(({ name }) => name === id);
  if (place < 0) throw invalid("unknown_id", `${param} names no model of this list.`, { param, in: "query" });
  return place;
}

const timeText = (unixMs: number): string => `${new Date(unixMs).toISOString().slice(0, 19)}Z`;
