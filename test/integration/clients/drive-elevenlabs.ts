// The steps of drive_elevenlabs.py with the official ElevenLabs client of npm: what came of each.
import { setImmediate as turn } from "node:timers/promises";
import { packageOf } from "../../fakes/test-npm.ts";

export const elevenlabs = "@elevenlabs/elevenlabs-js";

interface Voice {
  readonly voiceId: string;
  readonly name?: string;
  readonly description?: string;
}
interface Speech {
  readonly text: string;
  readonly modelId?: string;
  readonly outputFormat?: string;
}
interface Recording {
  readonly data: Buffer;
  readonly filename: string;
  readonly contentType: string;
}

/** Of the client what is driven here. */
interface Client {
  readonly textToSpeech: Record<"convert" | "stream", (voice: string, speech: Speech) => Promise<ReadableStream>>;
  readonly voices: {
    readonly ivc: {
      create(request: {
        readonly name: string;
        readonly description: string;
        readonly files: readonly Recording[];
      }): Promise<{ readonly voiceId: string; readonly requiresVerification: boolean }>;
    };
    getAll(): Promise<{ readonly voices: readonly Voice[] }>;
    get(id: string): Promise<Voice>;
    update(id: string, change: { readonly name: string; readonly description: string }): Promise<{ status: string }>;
    delete(id: string): Promise<{ readonly status: string }>;
  };
}
interface Exports {
  readonly ElevenLabsClient: new (options: {
    readonly baseUrl: string;
    readonly apiKey: string;
    readonly timeoutInSeconds: number;
  }) => Client;
  readonly ElevenLabsError: new () => Error & {
    readonly statusCode: number;
    readonly body: { readonly detail: { readonly status: string } };
  };
}

export async function driveElevenlabs(
  server: { readonly url: string; readonly apiKey: string },
  { SPEECH }: { readonly SPEECH: string },
): Promise<Record<string, unknown>> {
  const { ElevenLabsClient, ElevenLabsError } = packageOf<Exports>(elevenlabs);
  // Nothing else runs while so many files are loaded: of connections that the server let go meanwhile it is heard first.
  await turn();
  const client = new ElevenLabsClient({ baseUrl: server.url, apiKey: server.apiKey, timeoutInSeconds: 60 });
  const refused = async (ask: Promise<unknown>): Promise<readonly unknown[]> => {
    try {
      return ["not refused", await ask];
    } catch (error) {
      if (!(error instanceof ElevenLabsError)) throw error;
      return [error.statusCode, error.body.detail.status];
    }
  };
  const said = async (audio: Promise<ReadableStream>) => new Response(await audio).text();
  const recording = { data: Buffer.from("RIFF a recording"), filename: "said.wav", contentType: "audio/wav" };

  const { voices, textToSpeech } = client;
  const made = await voices.ivc.create({ name: "Ada", description: "calm", files: [recording, recording] });
  const listed = (await voices.getAll()).voices.map(({ name, description }) => [name, description]);
  const got = (await voices.get(made.voiceId)).name;
  const updated = (await voices.update(made.voiceId, { name: "Ada at work", description: "brisk" })).status;
  const renamed = await voices.get(made.voiceId);
  const asked = { text: "Hello", modelId: SPEECH };
  return {
    made: [made.voiceId.length, made.requiresVerification],
    listed,
    got,
    updated,
    renamed: [renamed.name, renamed.description],
    whole: await said(textToSpeech.convert(made.voiceId, { ...asked, outputFormat: "mp3_44100_128" })),
    stream: await said(textToSpeech.stream("Ada at work", { ...asked, outputFormat: "pcm_16000" })),
    default: await said(textToSpeech.convert("af_heart", { ...asked, outputFormat: "mp3_44100_128" })),
    opus: await said(textToSpeech.stream("af_heart", { ...asked, outputFormat: "opus_48000_64" })),
    "other format": (
      await refused(textToSpeech.convert("af_heart", { ...asked, outputFormat: "aiff_8000" as "ulaw_8000" }))
    )[0],
    twice: await refused(voices.ivc.create({ name: "Ada at work", description: "twice", files: [recording] })),
    deleted: (await voices.delete(made.voiceId)).status,
    gone: await refused(voices.get(made.voiceId)),
  };
}
