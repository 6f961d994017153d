#pragma once
#include <nghttp2/nghttp2.h>

// The fields of the anonymous union and of bit-fields that Swift does not import well.
static inline int32_t cnghttp2_stream_id(const nghttp2_frame *frame) { return frame->hd.stream_id; }
static inline uint8_t cnghttp2_type(const nghttp2_frame *frame) { return frame->hd.type; }
static inline uint8_t cnghttp2_flags(const nghttp2_frame *frame) { return frame->hd.flags; }
static inline long cnghttp2_payload_bytes(const nghttp2_frame *frame) { return (long)frame->hd.length; }
static inline int cnghttp2_is_request(const nghttp2_frame *frame) {
  return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}
static inline nghttp2_data_provider cnghttp2_provider(int32_t slot, nghttp2_data_source_read_callback read) {
  nghttp2_data_provider provider;
  provider.source.fd = slot;
  provider.read_callback = read;
  return provider;
}
static inline int32_t cnghttp2_slot(const nghttp2_data_source *source) { return source->fd; }
