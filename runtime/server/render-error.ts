// Any failure -> the refusal that a client sees. The only place where the engine's refusals meet statuses.
import { type RefusalFacts, RequestError } from "./request-error.ts";
import { EngineRefusal } from "./text-engine.ts";

export function renderError(error: unknown): RequestError {
  if (error instanceof RequestError) return error;
  if (!(error instanceof EngineRefusal))
    return new RequestError(500, "the model server failed; try again", { cause: error });
  const { code, message, param } = error;
  const refuse = (status: number, facts: RefusalFacts) => new RequestError(status, message, { cause: error, ...facts });
  switch (code) {
    case "context_length":
      return refuse(400, { param, code: "context_length_exceeded" });
    case "busy":
      return refuse(429, { code: "engine_overloaded", headers: { "retry-after": "1" } });
    case "choices":
      return refuse(422, { param });
    case "adapter":
      return param ? refuse(400, { param }) : refuse(404, { param: "model", code: "model_not_found" });
    case "adapter_room":
      return refuse(503, { param, code: "adapter_no_room" });
    case "constraint":
      return refuse(400, { param: param ?? "response_format" });
    default:
      return refuse(400, { param });
  }
}
