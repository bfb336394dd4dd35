import { ActionIcon, Box, Button, FileButton, Group, Image, Textarea, Tooltip } from "@mantine/core";
import { IconPaperclip, IconPlayerStop, IconSend, IconX } from "@tabler/icons-react";
import { type KeyboardEvent, type ReactNode, useState } from "react";
import type { Content } from "../../domain/chat.ts";
import { text } from "../../text/playground.ts";

const words = text.chat;

interface ComposerProps {
  readonly isBusy: boolean;
  readonly label?: string;
  /** First text of the field. */
  readonly initial?: string;
  /** The model takes images. */
  readonly takesImages?: boolean;
  /** The text stays after it was sent. */
  readonly isKept?: boolean;
  /** Beside the buttons. */
  readonly beside?: ReactNode;
  readonly onSend: (content: Content) => void;
  readonly onStop: () => void;
}

/** Field for a message. Enter sends, Shift+Enter starts a new line. */
export function Composer(props: ComposerProps): ReactNode {
  const { isBusy, label = words.message, initial = "", takesImages = false, isKept = false, beside } = props;
  const [value, setValue] = useState(initial);
  const [images, setImages] = useState<readonly string[]>([]);
  const send = () => {
    if (isBusy || (value.trim() === "" && images.length === 0)) return;
    const parts = images.map((url) => ({ type: "image_url", image_url: { url } }) as const);
    props.onSend(parts.length === 0 ? value : [{ type: "text", text: value }, ...parts]);
    if (isKept) return;
    setValue("");
    setImages([]);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // Enter also confirms a candidate of an input method.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  const attach = async (files: readonly File[]) => {
    const urls = await Promise.all(files.map(dataUrlOf));
    setImages((before) => [...before, ...urls]);
  };
  return (
    <Box className="composer">
      {images.length > 0 && (
        <Group gap="xs" mb="xs">
          {images.map((url, at) => (
            <Box key={url} pos="relative">
              <Image src={url} alt={words.image(at + 1)} h={64} w="auto" radius="sm" />
              <ActionIcon
                size="xs"
                color="dark"
                pos="absolute"
                top={2}
                right={2}
                aria-label={words.removeImage(at + 1)}
                onClick={() => setImages((before) => before.filter((_, other) => other !== at))}
              >
                <IconX size={12} />
              </ActionIcon>
            </Box>
          ))}
        </Group>
      )}
      <Textarea
        aria-label={label}
        placeholder={words.placeholder}
        autosize
        minRows={2}
        maxRows={10}
        value={value}
        onChange={(event) => setValue(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <Group justify="space-between" gap="xs" mt="xs">
        <Group gap="xs">{beside}</Group>
        <Group gap="xs">
          {takesImages && (
            <FileButton
              accept="image/png,image/jpeg,image/webp,image/gif"
              multiple
              onChange={(files) => void attach(files)}
            >
              {(button) => (
                <Tooltip label={words.attach}>
                  <ActionIcon {...button} variant="default" size="lg" aria-label={words.attach}>
                    <IconPaperclip size={18} />
                  </ActionIcon>
                </Tooltip>
              )}
            </FileButton>
          )}
          {isBusy ? (
            <Button size="sm" variant="default" leftSection={<IconPlayerStop size={16} />} onClick={props.onStop}>
              {text.stop}
            </Button>
          ) : (
            <Button
              size="sm"
              leftSection={<IconSend size={16} />}
              disabled={value.trim() === "" && images.length === 0}
              onClick={send}
            >
              {words.send}
            </Button>
          )}
        </Group>
      </Group>
    </Box>
  );
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
