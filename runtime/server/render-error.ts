// Any failure -> the refusal that a client sees. The only place where the engine's refusals meet statuses.
import { RequestError } from "./request-error.ts";
import { EngineRefusal } from "./text-engine.ts";

export function renderError(error: unknown): RequestError {
  if (error instanceof RequestError) return error;
  if (!(error instanceof EngineRefusal))
    return new RequestError(500, "the model server failed; try again", { cause: error });
  const { message, param } = error;
  switch (error.code) {
    case "context_length":
      return new RequestError(400, message, {
        param,
        code: "context_length_exceeded",
        cause: error,
      });
    case "busy":
      return new RequestError(429, message, {
        code: "engine_overloaded",
        headers: { "retry-after": "1" },
        cause: error,
      });
    case "choices":
      return new RequestError(422, message, { param, cause: error });
    case "adapter":
      return param
        ? new RequestError(400, message, { param, cause: error })
        : new RequestError(404, message, { param: "model", code: "model_not_found", cause: error });
    case "adapter_room":
      return new RequestError(503, message, { param, code: "adapter_no_room", cause: error });
    case "constraint":
      return new RequestError(400, message, { param: param ?? "response_format", cause: error });
    default:
      return new RequestError(400, message, { param, cause: error });
  }
}
