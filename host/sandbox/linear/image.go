package linear

import (
	"bytes"
	"slices"
	"sync"
)

// ImageStore holds the snapshots of the instances of one module. Instances with equal snapshots share one image. It is
// safe for concurrent use.
type ImageStore struct {
	maxCopied uint64 // bytes; smaller images are copied back, larger ones are mapped
	mu        sync.Mutex
	images    []*image
}

// NewImageStore returns an empty store for the instances of one module.
func NewImageStore() *ImageStore { return &ImageStore{maxCopied: defaultMaxCopied} }

// image is the content of a memory at its snapshot. It is immutable.
type image struct {
	content []byte
	file    *imageFile // nil if the image is copied instead of mapped
	refs    int        // guarded by ImageStore.mu
}

// acquire returns an image with this content, which the caller must release.
func (s *ImageStore) acquire(content []byte) (*image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, img := range s.images {
		if bytes.Equal(img.content, content) {
			img.refs++
			return img, nil
		}
	}
	img := &image{refs: 1}
	if uint64(len(content)) <= s.maxCopied {
		img.content = slices.Clone(content)
	} else {
		f, err := newImageFile(content)
		if err != nil {
			return nil, err
		}
		img.file, img.content = f, f.view
	}
	s.images = append(s.images, img)
	return img, nil
}

// release drops a reference to an image. Dropping the last one frees the image.
func (s *ImageStore) release(img *image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img.refs--
	if img.refs > 0 {
		return
	}
	s.images = slices.DeleteFunc(s.images, func(other *image) bool { return other == img })
	if img.file != nil {
		img.file.close()
	}
}
