import type { TaskBody } from "../../../inference/task.ts";

/** A body of JSON with the name that the engine knows the model by; what is null or undefined is left out. */
export const jsonBody =
  (fields: Readonly<Record<string, unknown>>) =>
  (model: string): TaskBody => {
    const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
    const bytes = Buffer.from(JSON.stringify({ ...Object.fromEntries(given), model }));
    return { contentType: "application/json", bytes };
  };

/** Of usual text. */
export const bytesPerToken = 4;
/** What a tokeniser adds to an input. */
export const tokensPerInput = 4;
