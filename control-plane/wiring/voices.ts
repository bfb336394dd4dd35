import type { DataKeys } from "../accounts/data-keys.ts";
import type { VoiceChanges } from "../assets/voice-book.ts";
import { createVoices, type Voices } from "../assets/voices.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createVoiceStore } from "../store/voices-store.ts";
import { voiceSamples } from "./seals.ts";

export const wireVoices = (db: OpenDatabase["db"], dataKeys: DataKeys, changes: VoiceChanges): Voices =>
  createVoices({ store: createVoiceStore(db), seal: voiceSamples(dataKeys), changes });
