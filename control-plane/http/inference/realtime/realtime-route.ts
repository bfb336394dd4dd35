// Path, key and options of OpenAI's Realtime interface. Only transcription sessions exist.
import type { TSchema } from "typebox";
import type { Caller } from "../../../accounts/caller.ts";
import { badRequest } from "../../../service-error.ts";
import { compatError } from "../../errors/error-body.ts";
import { refusalOf } from "../../errors/render-error.ts";
import type { SocketRoute } from "../../sockets/socket-route.ts";
import type { Validate } from "../inference-entry.ts";
import { RealtimeSession } from "./realtime-session.ts";
import { FormerSessionUpdate, SessionUpdate } from "./session-config.ts";

export function realtimeRoute(compile: (schema: TSchema) => Validate): SocketRoute {
  const validators = { update: compile(SessionUpdate), formerUpdate: compile(FormerSessionUpdate) };
  return {
    path: "/v1/realtime",
    dialect: "compat",
    matches: /^\/v1\/(?:compat\/|openai\/)?realtime\/?$/,
    right: "realtime",
    keyProtocol: "openai-insecure-api-key.",
    errorMessage: (error, requestId) => ({ type: "error", error: compatError(refusalOf(error), requestId) }),
    check({ query }) {
      const intent = query.get("intent");
      if (intent !== null && intent !== "transcription")
        throw badRequest("unsupported_value", "`intent` must be transcription.", { param: "intent", in: "query" });
      if (query.has("call_id"))
        throw badRequest("unsupported_value", "Calls are not supported. Connect with `intent=transcription`.", {
          param: "call_id",
          in: "query",
        });
    },
    open(socket, { query, headers }) {
      const protocols = headers["sec-websocket-protocol"] ?? "";
      const isFormer = headers["openai-beta"] !== undefined || protocols.includes("openai-beta.realtime-v1");
      return new RealtimeSession(socket, validators, {
        model: query.get("model")?.slice(0, 512) || onlyModel(socket.caller),
        isFormer,
      });
    },
  };
}

/** An ephemeral key names the model of its session. */
const onlyModel = ({ models, via }: Caller): string | undefined =>
  via === "jwt" && models?.size === 1 ? [...models][0] : undefined;
