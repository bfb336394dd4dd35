// vLLM from 0.16 on names reasoning only `reasoning`; customers read `reasoning_content`.
import { isJsonObject } from "../../proto/json-object.ts";

const key = Buffer.from('"reasoning"');

/** Returns a chunk or a whole reply with the contract's name. The same bytes if they do not have the other one, or are not JSON. */
export function withReasoningContent(json: Buffer): Buffer {
  // Quotes within strings are escaped: the bytes can only be a key or a whole value.
  if (!json.includes(key)) return json;
  let reply: unknown;
  try {
    reply = JSON.parse(json.toString());
  } catch {
    return json;
  }
  if (!isJsonObject(reply) || !Array.isArray(reply["choices"])) return json;
  return Buffer.from(JSON.stringify({ ...reply, choices: reply["choices"].map(choiceOf) }));
}

function choiceOf(choice: unknown): unknown {
  if (!isJsonObject(choice)) return choice;
  const { delta, message } = choice;
  return {
    ...choice,
    ...(delta === undefined ? {} : { delta: renamed(delta) }),
    ...(message === undefined ? {} : { message: renamed(message) }),
  };
}

function renamed(said: unknown): unknown {
  if (!isJsonObject(said) || said["reasoning"] === undefined) return said;
  const { reasoning, ...others } = said;
  return { reasoning_content: reasoning, ...others };
}
