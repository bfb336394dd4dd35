import { base, key, load, serve, speech } from "./driver.ts";

const { ElevenLabsClient } = load("@elevenlabs/elevenlabs-js");
const client = new ElevenLabsClient({ baseUrl: base, apiKey: key, timeoutInSeconds: 60 });

await serve({
  speech: async () =>
    new Response(await client.textToSpeech.convert("af_heart", { text: "Hello", modelId: speech })).text(),
});
