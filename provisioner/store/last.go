package store

import "fmt"

// LastEvent is the number of the newest event; 0 when there was none.
func (s *Store) LastEvent() (uint64, error) {
	var number uint64
	err := s.db.view(func(tx reader) (err error) {
		number, err = tx.last()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the newest event of the state %s: %w", s.path, err)
	}
	return number, nil
}
