import { badRequest, invalid } from "../../../service-error.ts";

const listed = (values: readonly string[]) => values.join(", ");

/** A built-in tool that a service of OpenAI would run. */
export const toolUnsupported = (type: string, param: string) =>
  badRequest(
    "unsupported_tool",
    `Unsupported tool type ${shown(type)}. Supported: function, custom, namespace. Offer other tools as functions and run them yourself.`,
    { param },
  );

export const toolUnknown = (name: string) =>
  badRequest("invalid_tool_choice", `tool_choice names the tool ${shown(name)}, which is not among tools.`, {
    param: "tool_choice",
  });

export const itemUnsupported = (type: string, param: string, supported: readonly string[]) =>
  badRequest("unsupported_item", `Unsupported input item type ${shown(type)}. Supported: ${listed(supported)}.`, {
    param,
  });

export const partUnsupported = (what: string, param: string) => badRequest("unsupported_content", what, { param });

export const inputMissing = () =>
  invalid("validation_error", "input: Field required", { param: "input", isMissing: true });

/** Without a previous response: a list without items asks nothing. */
export const inputEmpty = () =>
  invalid("validation_error", "input: List should have at least 1 item", { param: "input" });

/** Altered, or encrypted for another account. */
export const encryptedContentInvalid = (param: string) =>
  badRequest(
    "invalid_encrypted_content",
    "The encrypted content could not be verified. Send the reasoning item as it was received, with a key of the same account.",
    { param },
  );

export const fieldUnsupported = (param: string, advice: string) =>
  badRequest("unsupported_parameter", `Unsupported parameter: ${param}. ${advice}`, { param });

const shown = (text: string) => JSON.stringify(text.slice(0, 128));
