// POST /v1/audio/speech: each piece of the text leaves as soon as it is made.
import { setImmediate as nextTurn } from "node:timers/promises";
import { unitsHeader } from "../../../proto/usage.ts";
import { type AudioEncoder, contentTypes, openEncoder } from "../../audio/encoder.ts";
import type { TaskCall, TaskRoute } from "../../server/engine.ts";
import { untilRead } from "../../server/event-stream.ts";
import { readBody } from "../../server/read-body.ts";
import { type RequestError, unusable } from "../../server/request-error.ts";
import { speechPieces } from "./pieces.ts";
import { readSpeech } from "./request.ts";
import type { Synthesiser } from "./synthesiser.ts";

/** Encoded at a time: a whole sentence would delay all other requests by a quarter of a second. */
const sliceSeconds = 0.2;

export function speechRoute(synthesiser: Synthesiser): TaskRoute {
  return { operation: "text_to_speech", run: (call) => answer(synthesiser, call) };
}

async function answer(synthesiser: Synthesiser, call: TaskCall): Promise<void> {
  const { request, response, signal, usage } = call;
  const { text, manner, format } = readSpeech(await readBody(request), synthesiser);
  const characters = [...text].length;
  const pieces = speechPieces(text);
  const encoder = await openEncoder(format, synthesiser.rate);
  let spoken = 0;
  try {
    for (const [index, piece] of pieces.entries()) {
      if (signal.aborted) return;
      const made = synthesiser.speak(piece, manner);
      spoken += [...piece].length;
      // A started piece is billed, also if the client disconnects; spaces between pieces are billed with the last one.
      usage.units = { characters: index === pieces.length - 1 ? characters : Math.min(spoken, characters) };
      const samples = await made;
      if (signal.aborted) return;
      const slice = Math.round(synthesiser.rate * sliceSeconds);
      for (let at = 0; samples && at < samples.length && !signal.aborted; at += slice) {
        if (at > 0) await nextTurn();
        await send(call, encoder, samples.subarray(at, at + slice), contentTypes[format]);
      }
    }
    if (!response.headersSent) throw nothingToSay();
    response.addTrailers({ [unitsHeader]: `characters=${characters}` });
    response.end(encoder.end());
  } catch (error) {
    // A truncated sound must not look complete.
    if (response.headersSent) response.destroy();
    throw error;
  } finally {
    encoder.free();
  }
}

async function send(
  { response, onFirstToken }: TaskCall,
  encoder: AudioEncoder,
  samples: Float32Array,
  contentType: string,
) {
  if (!response.headersSent) {
    onFirstToken();
    response.writeHead(200, { "content-type": contentType, trailer: unitsHeader });
  }
  const bytes = encoder.encode(samples);
  if (bytes.length > 0 && !response.write(bytes)) await untilRead(response);
}

function nothingToSay(): RequestError {
  return unusable("input", "there is nothing in input that can be said", "nothing_to_say");
}
