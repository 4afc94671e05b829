package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Marks returns what SetMarks wrote last under each name.
func (s *Store) Marks() (map[string]string, error) {
	marks := map[string]string{}
	err := s.db.view(func(tx reader) error {
		clear(marks)
		return tx.walk(bucketMarks, nil, nil, func(name, raw []byte) error {
			var mark string
			if err := json.Unmarshal(raw, &mark); err != nil {
				return fmt.Errorf("the mark of %q: %w", name, err)
			}
			marks[string(name)] = mark
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the marks of the state %s: %w", s.path, err)
	}
	return marks, nil
}

// SetMarks writes marks and leaves the others as they are. A mark says which
// generation of a node, named cluster/name, or of something else was acted on last.
// Many marks take several transactions, in the order of their names.
func (s *Store) SetMarks(marks map[string]string) error {
	for names := range slices.Chunk(slices.Sorted(maps.Keys(marks)), s.db.capacity()) {
		err := s.db.batch(func(tx writer) error {
			for _, name := range names {
				if err := putJSON(tx, bucketMarks, []byte(name), marks[name]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("write %d marks to the state %s: %w", len(marks), s.path, err)
		}
	}
	return nil
}
