// Records the microphone.
import { useEffect, useRef, useState } from "react";

export interface Recorder {
  /** The browser offers one on this page. */
  readonly isOffered: boolean;
  /** Unix milliseconds; undefined: it is not recording. */
  readonly startedAt: number | undefined;
  readonly isRefused: boolean;
  readonly start: () => Promise<void>;
  /** Ends the recording, which `onRecorded` receives. */
  readonly stop: () => void;
}

export function useRecorder(onRecorded: (file: File) => void): Recorder {
  const [startedAt, setStartedAt] = useState<number | undefined>(undefined);
  const [isRefused, setRefused] = useState(false);
  const recorder = useRef<MediaRecorder>(undefined);
  const isLeft = useRef(false);
  useEffect(
    () => () => {
      isLeft.current = true;
      if (recorder.current?.state === "recording") recorder.current.stop();
    },
    [],
  );
  const start = async () => {
    setRefused(false);
    let stream: MediaStream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch {
      setRefused(true);
      return;
    }
    const own = new MediaRecorder(stream);
    const parts: Blob[] = [];
    own.ondataavailable = ({ data }) => parts.push(data);
    own.onstop = () => {
      for (const track of stream.getTracks()) track.stop();
      if (isLeft.current) return;
      setStartedAt(undefined);
      const type = own.mimeType.split(";")[0] || "audio/webm";
      onRecorded(new File(parts, `recording.${type.split("/")[1]}`, { type }));
    };
    recorder.current = own;
    own.start();
    setStartedAt(Date.now());
  };
  return {
    isOffered: navigator.mediaDevices !== undefined && typeof MediaRecorder !== "undefined",
    startedAt,
    isRefused,
    start,
    stop: () => recorder.current?.stop(),
  };
}
